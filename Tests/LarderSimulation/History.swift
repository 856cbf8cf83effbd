/// What the calls of a story have returned, key by key, and whether one order of them explains it all.
///
/// Exact: it follows all states that a key may be in, side by side (Lowe, "Testing for linearizability", 2017). It
/// shares no code with the checker of real processes, because it also knows lives, tags and evictions.
struct History {
    /// A value with its life, as far as it is known. Milliseconds of the world's clock.
    struct Content: Hashable {
        var value: Int
        /// It may have expired from here on.
        var from: Int64
        /// It has expired by here.
        var to: Int64
        /// How long a use makes it last, where lives slide.
        var life: Int64

        fileprivate mutating func extend(by other: Content) {
            from = min(from, other.from)
            to = max(to, other.to)
            life = max(life, other.life)
        }
    }

    enum Effect: Hashable {
        /// The value that was seen; nil: none. `start`: the time at its beginning, for lives that slide.
        case read(Int?, start: Int64 = .max)
        /// A read whose answer is not known, where lives slide.
        case use(start: Int64)
        case write(Content)
        /// The value that was there; nil: the new one was stored. `start`: as for a read.
        case writeIfAbsent(Content, seen: Int?, start: Int64)
        /// `start`: the time at its beginning. It sees what was fresh then.
        case modify(Content, seen: Int?, start: Int64)
        /// Whether there was a value.
        case remove(Bool?, start: Int64)
        case renew(Content, Bool, start: Int64)
        /// Removes a value, or one that has the tag.
        case clear(onlyTagged: Bool)
        /// Removes a value; a call that has begun before may still see it, and change the key.
        case evict
    }

    struct Operation {
        let effect: Effect
        let begin: Int
        /// Nil: it never ended, or its end says nothing.
        let end: Int?
        /// It had its effect until here, or never will. Set where `end` is nil.
        let limit: Int
        /// The call, for a message.
        let origin: Int
    }

    /// What happens to all keys.
    enum Change: Hashable {
        /// The clock has this time.
        case time(Int64)
        /// Any earlier value may be there, or none.
        case forgets
        /// The value may be gone from here on.
        case mayVanish
        /// Reads may miss, or not any more.
        case mayMiss(Bool)
        /// An eviction may be undone, or a removal of a process that was killed in it: the line that others have seen
        /// is lost.
        case mayUndo
    }

    let slides: Bool
    /// Any value may vanish at any time.
    let evicts: Bool
    enum Tagging {
        case untagged, tagged, perhaps
    }

    let tags: [Int: Tagging]
    var now: Int64

    private enum Event {
        case begin(Int)
        case end(Int)
        case limit(Int)
        case change(Change)
    }

    private struct State: Hashable {
        var content: Content?
        /// The open operations that have had their effect.
        var done: UInt64 = 0
        /// The value may vanish without a call.
        var isFrail = false
        /// The value that has expired since nobody has changed the key. A call that has begun before takes it for fresh.
        var expired: Content?
        /// The value that was evicted since, and the operations that were open then.
        var evicted: Int?
        var beside: UInt64 = 0
        /// The value that was evicted, or that a call has removed which never ended.
        var undoable: Content?
    }

    /// Returns the call that contradicts the others of a key, and what it could have seen.
    mutating func contradiction(_ operations: [Operation], _ changes: [(Int, Change)]) -> (origin: Int, text: String)? {
        var events: [(time: Int, order: Int, event: Event)] = changes.map { ($0.0, 0, .change($0.1)) }
        for (number, operation) in operations.enumerated() {
            events.append((operation.begin, 0, .begin(number)))
            if let end = operation.end {
                events.append((end, 1, .end(number)))
            } else {
                events.append((operation.limit, 1, .limit(number)))
            }
        }
        events.sort { ($0.time, $0.order) < ($1.time, $1.order) }
        var states: Set<State> = [State()]
        var slots: [Int?] = []
        /// The values that have been stored so far, each with all its lives.
        var written: [Int: Content] = [:]
        var mayMiss = false

        func open() -> [(slot: Int, number: Int)] {
            slots.enumerated().compactMap { slot, number in number.map { (slot, $0) } }
        }

        /// All states that open operations and time lead to.
        func reachable(_ states: Set<State>) -> Set<State> {
            var found = states
            var waiting = Array(states)
            func add(_ state: State) {
                if found.insert(state).inserted { waiting.append(state) }
            }
            while let state = waiting.popLast() {
                if state.isFrail || evicts, let gone = state.content { add(State(done: state.done, undoable: gone)) }
                for (slot, number) in open() where state.done & 1 << UInt64(slot) == 0 {
                    // It has read the value, which lasts longer then, and has not replaced it yet.
                    if slides, case .modify = operations[number].effect { add(used(state)) }
                    for next in after(operations[number].effect, slot, state, mayMiss) {
                        var next = next
                        if operations[number].effect == .evict {
                            next.evicted = state.content?.value
                            next.beside = open().reduce(0) { $0 | 1 << UInt64($1.slot) }
                        }
                        next.done |= 1 << UInt64(slot)
                        if operations[number].end == nil, next.content == nil {
                            next.undoable = state.content ?? state.undoable
                        }
                        add(next)
                    }
                }
            }
            return found
        }

        for (time, _, event) in events {
            switch event {
            case .begin(let number):
                let slot = slots.firstIndex { $0 == nil } ?? slots.count
                if slot == slots.count { slots.append(nil) }
                precondition(slot < 64, "too many calls at once")
                slots[slot] = number
                switch operations[number].effect {
                case .write(let content), .writeIfAbsent(let content, _, _), .modify(let content, _, _):
                    written[content.value] = content
                case .renew(let life, _, _):
                    // What a power cut leaves of it may be the old life or the new one.
                    for value in written.keys { written[value]?.extend(by: life) }
                default: break
                }
            case .end(let number), .limit(let number):
                let slot = slots.firstIndex { $0 == number }!
                let all = reachable(states)
                let isEnd = if case .end = event { true } else { false }
                var next: Set<State> = []
                for var state in all where !isEnd || state.done & 1 << UInt64(slot) != 0 {
                    state.done &= ~(1 << UInt64(slot))
                    state.beside &= ~(1 << UInt64(slot))
                    next.insert(state)
                }
                slots[slot] = nil
                if next.isEmpty {
                    let possible = Set(all.map { $0.content?.value })
                    return (
                        operations[number].origin,
                        "at \(time); possible: "
                            + possible.map { $0.map(String.init) ?? "none" }.sorted().joined(separator: ", ")
                    )
                }
                states = next
            case .change(let change):
                states = reachable(states)
                switch change {
                case .time(let time):
                    now = time
                    states = Set(states.flatMap { aged($0) })
                case .forgets:
                    let contents = written.values.filter { $0.to > now }
                    states = Set(
                        states.flatMap { state in
                            [State(content: nil, done: state.done)]
                                + contents.map { State(content: $0, done: state.done) }
                        })
                    states = Set(states.flatMap { aged($0) })
                case .mayVanish:
                    states = Set(states.map { State(content: $0.content, done: $0.done, isFrail: true) })
                case .mayMiss(let may): mayMiss = may
                case .mayUndo:
                    let undone = states.compactMap { state in
                        state.undoable.map { State(content: $0, done: state.done) }
                    }
                    states = states.union(undone.flatMap { aged($0) })
                }
            }
        }
        return nil
    }

    /// The state after a use of its value.
    private func used(_ state: State) -> State {
        guard slides, var used = state.content else { return state }
        used.to = max(used.to, now + used.life)
        return State(content: used, done: state.done, isFrail: state.isFrail)
    }

    /// The state without a value that has expired, or may have.
    private func aged(_ state: State) -> [State] {
        guard let content = state.content, content.from <= now else { return [state] }
        let gone = State(content: nil, done: state.done, expired: content)
        return content.to <= now ? [gone] : [state, gone]
    }

    /// The states after an effect; none when it is impossible.
    private func after(_ effect: Effect, _ slot: Int, _ state: State, _ mayMiss: Bool) -> [State] {
        let value = state.content?.value
        func with(_ content: Content?) -> [State] { aged(State(content: content, done: state.done)) }
        switch effect {
        case .read(nil, _): return value == nil || mayMiss ? [state] : []
        case .read(let seen?, let start):
            if value == seen { return [used(state)] }
            guard slides, value == nil, start < now, state.expired?.value == seen else { return [] }
            return after(.use(start: start), slot, state, mayMiss)
        case .use(let start):
            guard value == nil else { return [used(state)] }
            guard start < now, var content = state.expired else { return [state] }
            // It was fresh when the call began, which makes it last longer, or no more.
            (content.from, content.to) = (start + content.life, now + content.life)
            return [state] + with(content)
        case .write(let content): return with(content)
        case .writeIfAbsent(let content, nil, _): return value == nil || mayMiss ? with(content) : []
        case .writeIfAbsent(_, let seen?, let start): return after(.read(seen, start: start), slot, state, false)
        case .modify(let content, let seen, let start):
            let wasEvicted = seen != nil && seen == state.evicted && state.beside & 1 << UInt64(slot) != 0
            let isSeen = value == seen || start < now && seen == state.expired?.value || wasEvicted
            return isSeen || seen == nil && mayMiss ? with(content) : []
        case .remove(nil, _): return with(nil)
        case .remove(false, _): return value == nil || mayMiss ? with(nil) : []
        case .remove(_, let start): return value != nil || start < now && state.expired != nil ? with(nil) : []
        case .renew(let life, let wasDone, let start):
            let renewed = value ?? (start < now ? state.expired?.value : nil)
            if !wasDone { return value == nil || mayMiss ? [state] : [] }
            guard let renewed else { return [] }
            let content = Content(value: renewed, from: life.from, to: life.to, life: life.life)
            return aged(State(content: content, done: state.done, isFrail: state.isFrail))
        case .evict: return with(nil)
        case .clear(let onlyTagged):
            if !onlyTagged { return with(nil) }
            return switch value.map({ tags[$0] ?? .untagged }) ?? .untagged {
            case .untagged: [state]
            case .tagged: with(nil)
            case .perhaps: [state] + with(nil)
            }
        }
    }
}
