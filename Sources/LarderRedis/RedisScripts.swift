#if Redis
    /// The steps that the server makes as one. Versions are compared as strings: they have a fixed width.
    ///
    /// A value is a hash: `v` version, `r` record, `p` payload, `c` checksum, `k` stale window, `s` stored at, on the
    /// server's clock; `b` the version under which the payload was written; `n` the number of generations, `m1` the key
    /// of the first and `i1` its content when the value was written. A tombstone has `v` and `d`. A generation is a
    /// string: its id, the version of the last clear, and a version that is lower than those of all changes since.
    /// Times are milliseconds.
    ///
    /// A value that ends leaves nothing under its key. So that an older one is not taken for current afterwards, its
    /// version stays in a hash of 4,096 slots, which many keys share: the highest version of each slot, of all changes
    /// with a life shorter than a tombstone's. A key that shares a slot with a newer one may cost a fetch.
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
            local function split(mark) return string.match(mark, '^(%x+):(%x*):(%x+)$') end
            local function ahead(v) return (tonumber(string.sub(v, 1, 12), 16) or 0) > now + 5000 end
            local day = 86400000
            local function slot(key) return string.sub(redis.sha1hex(key), 1, 3) end
            local function forgotten(slots, key)
                local v = redis.call('HGET', slots, slot(key))
                return v and not ahead(v) and v
            end
            local function ends(slots, key, v, ms)
                local known = ms >= 0 and ms < day and (forgotten(slots, key) or '')
                if known and known < v then redis.call('HSET', slots, slot(key), v) end
            end
            local function epoch(key)
                local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
                local evicted = string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)') or ''
                local known = redis.call('GET', key)
                local id = known and string.match(known, '^(%x+):' .. run .. ':%x+$')
                return id, run, '.' .. run .. '.' .. evicted
            end
            local function current(key)
                local n = tonumber(redis.call('HGET', key, 'n') or '0') or 0
                local ids = {}
                for i = 1, n do
                    local m = redis.call('HMGET', key, 'm' .. i, 'i' .. i)
                    local mark = m[1] and redis.call('GET', m[1])
                    if not mark or not m[2] or split(mark) ~= m[2] then return nil end
                    ids[i] = m[2]
                end
                return ids
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
                return {0, {}}
            end
            local function tell(reply, channel, message)
                redis.call('PUBLISH', channel, message)
                return reply
            end

            """

        /// Returns the answer to a question; with the epoch where a newer change may have been forgotten. Keys: the
        /// entry, the generations of the caller's copy, the slots, the epoch. Arguments: the version of the copy, the
        /// longest payload.
        static let read =
            start + """
                local marks = {}
                for i = 2, #KEYS - 2 do
                    local mark = redis.call('GET', KEYS[i])
                    marks[i - 1] = mark and split(mark) or ''
                end
                local h = redis.call('HMGET', KEYS[1], 'v', 'd', 'k', 's')
                local at = ''
                if ARGV[1] ~= '' and (not h[1] or h[1] < ARGV[1]) then
                    local id, _, rest = epoch(KEYS[#KEYS])
                    at = (id or '') .. rest
                end
                if not h[1] then
                    local expired = ARGV[1] ~= '' and forgotten(KEYS[#KEYS - 1], KEYS[1])
                    if expired then return {1, marks, at, expired} end
                    return {0, marks, at}
                end
                if h[2] then return {1, marks, at, h[1]} end
                local ids = current(KEYS[1])
                if not ids then return {2, marks, at, h[1]} end
                local left = redis.call('PTTL', KEYS[1])
                local age = now - (tonumber(h[4]) or now)
                if h[1] == ARGV[1] then return {3, marks, at, h[1], left, h[3], age} end
                if redis.call('HSTRLEN', KEYS[1], 'p') > tonumber(ARGV[2]) then return {1, marks, at, h[1]} end
                local e = redis.call('HMGET', KEYS[1], 'p', 'r', 'c')
                return {4, marks, at, h[1], left, h[3], age, e[1], e[2], e[3], ids}
                """

        /// Stores or renews an entry. Keys: the entry, its generations, the slots, the epoch. Arguments: version,
        /// remaining life or "", stale window, age, record, payload, checksum, "1" if late, "1" for a renewal, channel,
        /// message, the version of the writer's copy; and for each generation the known id and a new one.
        static let write =
            start + """
                local v = ARGV[1]
                if ahead(v) then return {3, now} end
                local old = redis.call('HGET', KEYS[1], 'v')
                if old and old > v and not ahead(old) then return {1, old} end
                local late, renewal = ARGV[8] == '1', ARGV[9] == '1'
                local function remembers()
                    local epoch = redis.call('GET', KEYS[#KEYS])
                    local begun = epoch and string.match(epoch, ':(%x+)$')
                    return begun and v > begun and string.match(redis.call('INFO', 'stats'), 'evicted_keys:0%D') ~= nil
                end
                redis.call('SETRANGE', KEYS[#KEYS], 0, '')
                if renewal then
                    if not old or redis.call('HEXISTS', KEYS[1], 'd') == 1 then return {4} end
                    local base = ARGV[12]
                    if base ~= '' and base ~= old and base ~= redis.call('HGET', KEYS[1], 'b') then return {1, old} end
                    if not current(KEYS[1]) then return {2} end
                end
                local life = ARGV[2] == '' and -1 or math.max(1, tonumber(ARGV[2]) + tonumber(ARGV[3]))
                local memory = life < 0 and -1 or life + day
                local slots = KEYS[#KEYS - 1]
                local expired = late and not old and forgotten(slots, KEYS[1])
                local cleared = late and not old and (not remembers() or expired and v <= expired)
                local ids, fields = {}, {}
                for i = 2, #KEYS - 2 do
                    local known, new = ARGV[9 + 2 * i], ARGV[10 + 2 * i]
                    local mark = redis.call('GET', KEYS[i])
                    local id, clear, begun
                    if mark then id, clear, begun = split(mark) end
                    if id then
                        keep(KEYS[i], memory)
                        if clear ~= '' and v <= clear and not ahead(clear) then cleared = true end
                        if late and known ~= id and v <= begun then cleared = true end
                    else
                        id = new
                        redis.call('SET', KEYS[i], id .. '::' .. hex(now) .. string.rep('0', 20))
                        if memory >= 0 then redis.call('PEXPIRE', KEYS[i], memory * 2) end
                        if late and not remembers() then cleared = true end
                    end
                    ids[i - 1] = id
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
                        's', stored, 'b', v, 'n', #ids, unpack(fields))
                end
                if life < 0 then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], life) end
                ends(slots, KEYS[1], v, life)
                return tell({0, ids}, ARGV[10], ARGV[11])
                """

        /// Removes an entry, or expires it. A full server takes both, too. Keys: the entry, the slots. Arguments:
        /// version, life of the tombstone, "1" to expire, channel, message.
        static let remove =
            start + """
                local v = ARGV[1]
                if ahead(v) then return {3, now} end
                local h = redis.call('HMGET', KEYS[1], 'v', 'd', 'k')
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
                return tell({0, {}}, ARGV[4], ARGV[5])
                """

        /// Replaces a generation, and tells. A full server takes it, too. Arguments: version, new id, channel, message.
        static let clear =
            start + """
                local v = ARGV[1]
                if ahead(v) then v = hex(now) .. 'ffff' .. string.sub(v, 17) end
                local mark = redis.call('GET', KEYS[1])
                local _, clear = nil, nil
                if mark then _, clear = split(mark) end
                if clear and clear ~= '' and clear >= v and not ahead(clear) then return {0} end
                local left = mark and redis.call('PTTL', KEYS[1]) or 0
                local content = ARGV[2] .. ':' .. v .. ':' .. v
                redis.call('DEL', KEYS[1])
                redis.call('SET', KEYS[1], content)
                if left >= 0 then redis.call('PEXPIRE', KEYS[1], math.max(left, 172800000)) end
                redis.call('PUBLISH', ARGV[3], ARGV[4])
                return {0}
                """

        /// Ends a lease of its holder, and tells. Arguments: the holder, channel, message.
        static let endLease = """
            if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
            redis.call('DEL', KEYS[1])
            redis.call('PUBLISH', ARGV[2], ARGV[3])
            return 1
            """

        /// Returns the epoch and the time. Begins an epoch when there is none, or the server has been restarted.
        /// Arguments: a new id.
        static let epoch =
            start + """
                local id, run, rest = epoch(KEYS[1])
                if not id then
                    id = ARGV[1]
                    local content = id .. ':' .. run .. ':' .. hex(now) .. string.rep('0', 20)
                    local reply = redis.pcall('SET', KEYS[1], content)
                    if type(reply) == 'table' and reply.err then redis.pcall('DEL', KEYS[1]) end
                end
                return {id .. rest, now}
                """
    }
#endif
