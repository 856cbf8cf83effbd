import LarderFiles

/// The open handles on a store, each with the path by which it was opened and its listener.
final class HandleTable: Sendable {
    struct Handle: Sendable {
        fileprivate let number: Int
        fileprivate let listener: Int?
    }

    private struct State {
        var last = 0
        /// By handle.
        var paths: [Int: String] = [:]
    }

    private let state = Lock(State())

    /// The paths of all handles.
    var paths: [String] { state.withLock { Set($0.paths.values).sorted() } }

    /// Adds a handle, with its listener.
    func join(at path: String, _ onEvent: EventCenter.Handler?, _ events: EventCenter) -> Handle {
        let number = state.withLock { state in
            state.last += 1
            state.paths[state.last] = path
            return state.last
        }
        return Handle(number: number, listener: onEvent.map { events.add($0) })
    }

    /// Removes a handle; true for the last one.
    func leave(_ handle: Handle, _ events: EventCenter) -> Bool {
        if let listener = handle.listener { events.remove(listener) }
        return state.withLock { state in
            state.paths[handle.number] = nil
            return state.paths.isEmpty
        }
    }
}
