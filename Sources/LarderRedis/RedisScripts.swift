#if Redis
    /// The steps that the server makes as one. Versions are compared as strings: they have a fixed width.
    ///
    /// A value is a hash: `v` version, `r` record, `p` payload, `c` checksum, `k` stale window, `s` stored at, on the
    /// server's clock; `b` the version under which the payload was written; `n` the number of generations, `m1` the key
    /// of the first and `i1` its content when the value was written. A tombstone has `v` and `d`. A generation is a
    /// string: its id, the version of the last clear, and a version since which no clear has been forgotten. Times are
    /// milliseconds.
    ///
    /// The epoch is a string: its id, the run of the server, a version since which nothing has been forgotten, and the
    /// numbers of evictions and of commands that the server had counted by then. Each tier asks for it every few
    /// seconds, and notes these numbers anew. If the server shows fewer commands than before, an administrator has
    /// reset its statistics, and nobody knows what it has evicted: another epoch begins.
    ///
    /// A value that ends leaves nothing under its key. So that an older one is not taken for current afterwards, each
    /// change with a life shorter than a tombstone's leaves its version in a hash, under 16 digits of the key's digest.
    /// When that has 100,000 fields, it becomes the older half of the memory, and the present older half is forgotten,
    /// but for the highest version in it (`floor`; `last`, in each half): older versions are not known to be current.
    /// So the memory is bounded, and forgets nothing before as many keys have been changed.
    ///
    /// A value of another form under one of these names belongs to another program: it counts as missing, and the next
    /// change replaces it.
    ///
    /// A server without memory refuses commands that might need more, but only until the first change of a script
    /// (tried with Redis 7.0). So writes begin with one that changes nothing, tombstones and generations with a
    /// deletion, and expiries with the new end.
    /// https://redis.io/docs/latest/develop/reference/errors/common/oom/
    enum RedisScripts {
        /// The functions that the others begin with.
        private static let start = """
            local t = redis.call('TIME')
            local now = t[1] * 1000 + math.floor(t[2] / 1000)
            local function hex(ms) return string.format('%06x%06x', math.floor(ms / 16777216), ms % 16777216) end
            local function split(mark)
                local id, clear, begun = string.match(mark, '^(%x+):(%x*):(%x+)$')
                if id and #begun == 32 and (clear == '' or #clear == 32) then return id, clear, begun end
            end
            local function ahead(v) return (tonumber(string.sub(v, 1, 12), 16) or 0) > now + 5000 end
            local day = 86400000
            local function first(ms) return hex(ms) .. string.rep('0', 20) end
            local function text(key)
                local content = redis.pcall('GET', key)
                return type(content) == 'string' and content
            end
            local function version(v) return v and #v == 32 and string.match(v, '^%x+$') and v end
            local function entry(key)
                local h = redis.pcall('HMGET', key, 'v', 'd', 'k', 's')
                local isOurs = not h.err and version(h[1]) and (not h[3] or #h[3] <= 15 and string.match(h[3], '^%d+$'))
                return isOurs and redis.call('HSTRLEN', key, 'r') + redis.call('HSTRLEN', key, 'c') <= 300000 and h or {}
            end
            local function past(hash, field)
                local v = redis.pcall('HGET', hash, field)
                v = type(v) == 'string' and version(v)
                return v and not ahead(v) and v or ''
            end
            local function highest(a, b) return a > b and a or b end
            local function field(key) return string.sub(redis.sha1hex(key), 1, 16) end
            local function forgotten(ended, key)
                local f, older = field(key), ended .. 'o'
                return highest(highest(past(ended, f), past(older, f)), past(ended, 'floor'))
            end
            local function ends(ended, key, v, ms)
                if ms < 0 or ms >= day or v <= forgotten(ended, key) then return end
                local count = redis.pcall('HLEN', ended)
                if type(count) ~= 'number' then redis.call('DEL', ended) end
                if type(count) == 'number' and count >= 100000 then
                    local floor = highest(past(ended, 'floor'), past(ended .. 'o', 'last'))
                    redis.call('UNLINK', ended .. 'o')
                    redis.call('RENAME', ended, ended .. 'o')
                    redis.call('HSET', ended, 'floor', floor)
                end
                redis.call('HSET', ended, field(key), v, 'last', highest(v, past(ended, 'last')))
            end
            local function epoch(key)
                local stats = redis.call('INFO', 'stats')
                local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
                local evicted = string.match(stats, 'evicted_keys:(%d+)') or ''
                local commands = string.match(stats, 'total_commands_processed:(%d+)') or '0'
                local id, begun, known, count = string.match(
                    text(key) or '', '^(%x+):' .. run .. ':(%x+):(%d*):(%d+)$')
                if id and (not version(begun) or tonumber(commands) < tonumber(count)) then id = nil end
                return {id = id, run = run, begun = begun, isQuiet = known == evicted,
                    evicted = evicted, commands = commands}
            end
            local function name(e) return (e.id or '') .. '.' .. e.run .. '.' .. e.evicted end
            local function memory(key)
                local e = epoch(key)
                local begun, oldest = e.id and e.isQuiet and e.begun or first(now), first(now - day)
                return begun > oldest and begun or oldest
            end
            local function current(key)
                for i = 1, tonumber(redis.call('HGET', key, 'n') or '0') or 0 do
                    local m = redis.call('HMGET', key, 'm' .. i, 'i' .. i)
                    local mark = m[1] and text(m[1])
                    if not mark or not m[2] or split(mark) ~= m[2] then return false end
                end
                return true
            end
            local function keep(key, ms)
                local left = redis.call('PTTL', key)
                if left < 0 then return end
                if ms < 0 then redis.call('PERSIST', key) elseif left < ms then redis.call('PEXPIRE', key, ms * 2) end
            end
            local function tombstone(key, v, ms)
                redis.call('DEL', key)
                redis.call('HSET', key, 'v', v, 'd', '1')
                redis.call('PEXPIRE', key, ms)
                return {0}
            end
            local function tell(reply, channel, message)
                redis.call('PUBLISH', channel, message)
                return reply
            end

            """

        /// Returns the answer to a question; with the epoch where a newer change may have been forgotten. Keys: the
        /// entry, the generations of the caller's copy, the ended, the epoch. Arguments: the version of the copy, the
        /// longest payload.
        ///
        /// The state of the generations: 0, none was cleared since the version; 1, none as far as is known; 2, one was,
        /// or the version is from the future.
        static let read =
            start + """
                local own = ARGV[1]
                local state = own == '' and 1 or ahead(own) and 2 or 0
                for i = 2, #KEYS - 2 do
                    local mark = text(KEYS[i])
                    local id, clear, begun
                    if mark then id, clear, begun = split(mark) end
                    if id and own <= clear then state = 2 end
                    if state == 0 and (not id or own <= begun) then state = 1 end
                end
                local h = entry(KEYS[1])
                local at = ''
                if own ~= '' and (not h[1] or h[1] < own or h[2] and h[1] == own) then at = name(epoch(KEYS[#KEYS])) end
                if not h[1] then
                    -- The own version proves nothing: a removal may have followed it, and been evicted.
                    local expired = own ~= '' and forgotten(KEYS[#KEYS - 1], KEYS[1]) or ''
                    if expired > own then return {1, state, at, expired} end
                    return {0, state, at}
                end
                if h[2] then return {1, state, at, h[1]} end
                if not current(KEYS[1]) then return {2, state, at, h[1]} end
                local left = redis.call('PTTL', KEYS[1])
                local age = now - (tonumber(h[4]) or now)
                if h[1] == own then return {3, state, at, h[1], left, h[3], age} end
                if redis.call('HSTRLEN', KEYS[1], 'p') > tonumber(ARGV[2]) then return {1, state, at, h[1]} end
                local e = redis.call('HMGET', KEYS[1], 'p', 'r', 'c')
                return {4, state, at, h[1], left, h[3], age, e[1], e[2], e[3]}
                """

        /// Stores or renews an entry. Keys: the entry, its generations, the ended, the epoch. Arguments: version,
        /// remaining life or "", stale window, age, record, payload, checksum, "1" if late, "1" for a renewal, channel,
        /// message, the version of the writer's copy; and a new id for each generation.
        static let write =
            start + """
                local v = ARGV[1]
                if ahead(v) then return {3, now} end
                local old = entry(KEYS[1])[1]
                if old and old > v and not ahead(old) then return {1, old} end
                local late, renewal = ARGV[8] == '1', ARGV[9] == '1'
                local known
                local function remembered()
                    known = known or memory(KEYS[#KEYS])
                    return known
                end
                local room = redis.pcall('SETRANGE', KEYS[#KEYS], 0, '')
                if type(room) == 'table' and not string.find(room.err, 'WRONGTYPE') then return room end
                if renewal then
                    if not old or redis.call('HEXISTS', KEYS[1], 'd') == 1 then return {4} end
                    local base = ARGV[12]
                    if base ~= '' and base ~= old and base ~= redis.call('HGET', KEYS[1], 'b') then return {1, old} end
                    if not current(KEYS[1]) then return {2} end
                end
                local life = ARGV[2] == '' and -1 or math.max(1, tonumber(ARGV[2]) + tonumber(ARGV[3]))
                local kept = life < 0 and -1 or life + day
                local ended = KEYS[#KEYS - 1]
                local cleared = late and not old and (v <= remembered() or v <= forgotten(ended, KEYS[1]))
                local count, fields = #KEYS - 3, {}
                for i = 2, #KEYS - 2 do
                    local mark = text(KEYS[i])
                    local id, clear, begun
                    if mark then id, clear, begun = split(mark) end
                    if id then
                        keep(KEYS[i], kept)
                    else
                        id, clear, begun = ARGV[11 + i], '', remembered()
                        redis.call('SET', KEYS[i], id .. '::' .. begun)
                        if kept >= 0 then redis.call('PEXPIRE', KEYS[i], kept * 2) end
                    end
                    if clear ~= '' and v <= clear and not ahead(clear) or late and v <= begun then cleared = true end
                    fields[#fields + 1] = 'm' .. (i - 1)
                    fields[#fields + 1] = KEYS[i]
                    fields[#fields + 1] = 'i' .. (i - 1)
                    fields[#fields + 1] = id
                end
                if cleared then return {2} end
                local stored = string.format('%.0f', now - tonumber(ARGV[4]))
                if renewal then
                    redis.call('HSET', KEYS[1], 'v', v, 'r', ARGV[5], 'c', ARGV[7], 'k', ARGV[3], 's', stored)
                else
                    redis.call('DEL', KEYS[1])
                    redis.call('HSET', KEYS[1], 'v', v, 'r', ARGV[5], 'p', ARGV[6], 'c', ARGV[7], 'k', ARGV[3],
                        's', stored, 'b', v, 'n', count, unpack(fields))
                end
                if life < 0 then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], life) end
                ends(ended, KEYS[1], v, life)
                return tell({0}, ARGV[10], ARGV[11])
                """

        /// Removes an entry, or expires it. A full server takes both, too. Keys: the entry, the ended. Arguments:
        /// version, life of the tombstone, "1" to expire, channel, message.
        static let remove =
            start + """
                local v = ARGV[1]
                if ahead(v) then return {3, now} end
                local h = entry(KEYS[1])
                if h[1] and h[1] > v and not ahead(h[1]) then return {1, h[1]} end
                local kept = tonumber(h[3] or '0') or 0
                if ARGV[3] ~= '1' or not h[1] or h[2] or kept <= 0 then
                    return tell(tombstone(KEYS[1], v, ARGV[2]), ARGV[4], ARGV[5])
                end
                local left = redis.call('PTTL', KEYS[1])
                local life = left < 0 and kept or math.min(left, kept)
                redis.call('PEXPIRE', KEYS[1], life)
                redis.call('HSET', KEYS[1], 'v', v)
                ends(KEYS[2], KEYS[1], v, life)
                return tell({0}, ARGV[4], ARGV[5])
                """

        /// Replaces a generation, and tells. A full server takes it, too. Keys: the generation, the epoch. Arguments:
        /// version, new id, channel, message.
        static let clear =
            start + """
                local v = ARGV[1]
                if ahead(v) then v = hex(now) .. 'ffff' .. string.sub(v, 17) end
                local mark = text(KEYS[1])
                local _, clear, begun = nil, nil, nil
                if mark then _, clear, begun = split(mark) end
                if clear and clear ~= '' and clear >= v and not ahead(clear) then return {0} end
                begun = begun or memory(KEYS[2])
                local left = mark and redis.call('PTTL', KEYS[1]) or 0
                local content = ARGV[2] .. ':' .. v .. ':' .. (begun > v and begun or v)
                redis.call('DEL', KEYS[1])
                redis.call('SET', KEYS[1], content)
                if left >= 0 then redis.call('PEXPIRE', KEYS[1], math.max(left, 172800000)) end
                redis.call('PUBLISH', ARGV[3], v .. string.sub(ARGV[4], 33))
                return {0}
                """

        /// Takes a lease; returns false while another holder has it. A key that never ends is no lease. Arguments: the
        /// holder, milliseconds.
        static let lease = """
            if redis.call('PTTL', KEYS[1]) == -1 then redis.call('DEL', KEYS[1]) end
            return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
            """

        /// Ends a lease of its holder, and tells. Arguments: the holder, channel, message.
        static let endLease = """
            if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
            redis.call('DEL', KEYS[1])
            redis.call('PUBLISH', ARGV[2], ARGV[3])
            return 1
            """

        /// Returns the epoch, the time, and the id of the epoch as far as the server keeps it. Arguments: a new id,
        /// with which an epoch begins where there is none: the server has been restarted or emptied, or the key was
        /// evicted.
        ///
        /// A replica, or a server that cannot write its snapshot, keeps nothing.
        static let epoch =
            start + """
                local e = epoch(KEYS[1])
                local id, begun, kept = e.id or ARGV[1], e.begun, e.id or ''
                if not (e.id and e.isQuiet) then begun = first(now) end
                local content = table.concat({id, e.run, begun, e.evicted, e.commands}, ':')
                redis.pcall('DEL', KEYS[1])
                redis.pcall('SET', KEYS[1], content)
                if text(KEYS[1]) == content then kept = id end
                e.id = id
                return {name(e), now, kept}
                """
    }
#endif
