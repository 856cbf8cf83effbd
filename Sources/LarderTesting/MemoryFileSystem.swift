package import Dispatch
import Foundation
package import LarderFiles

/// A file system in memory whose calls can fail, tear a write, stop forever, or lose unsynced changes.
package final class MemoryFileSystem: Sendable {
    package enum Operation: Int, CaseIterable, Sendable {
        case openDirectory, open, create, status, read, write, truncate, allocate, sync, makeDirectory, rename, remove,
            list, lock, access
    }

    package enum Fault: Sendable {
        case fail(Errno)
        /// The process is killed inside this call: a write is torn, any other call does nothing, and so do all later
        /// calls.
        case kill
        /// The call waits before it does anything, while other threads and processes continue.
        case hold(Hold)
    }

    /// A call that waits.
    package struct Hold: Sendable {
        /// Signaled when the call is reached.
        package let reached = DispatchSemaphore(value: 0)
        /// Lets the call continue.
        package let free = DispatchSemaphore(value: 0)

        package init() {}
    }

    private static let devices = Lock(UInt64(1) << 40)

    let state: ProcessState
    /// Draws the thread that goes on at each call.
    let simulator: Simulator?
    /// Processes on one disk see it as different devices, so that they share nothing in the memory of the test.
    let device: UInt64
    /// Whether accesses to mapped files count as calls.
    let countsAccesses = Flag()
    /// Taken by a reader while other threads' reads are held.
    private let turnstile = DispatchSemaphore(value: 1)
    private let isHolding = Flag()
    private let holder = Lock<ObjectIdentifier?>(nil)

    private init(_ state: ProcessState, _ simulator: Simulator?) {
        device = Self.devices.withLock { device in
            device += 1
            return device
        }
        self.state = state
        self.simulator = simulator
    }

    private convenience init(_ state: State, _ simulator: Simulator?) {
        self.init(ProcessState(Disk(state), state.process), simulator)
    }

    package convenience init(_ image: MemoryImage = MemoryImage(), simulator: Simulator? = nil) {
        self.init(State(image: image, durable: image, nextNode: image.nextNode, process: Process(id: 1)), simulator)
    }

    /// Begins another process on the same disk.
    package func another() -> MemoryFileSystem {
        MemoryFileSystem(ProcessState(state.disk, state.disk.addProcess()), simulator)
    }

    /// The number of the process on its disk.
    package var process: Int { state.id }

    /// Counts accesses to mapped files as calls from now on: they can be killed, like calls.
    package func countAccesses() {
        countsAccesses.set()
    }

    /// Kills all processes, and returns the same disk for another one. A power cut may still lose unsynced changes.
    package func restarted() -> MemoryFileSystem {
        restarted { ($0.image, $0.durable, $0.unsynced) }
    }

    /// The same with another content, all of which is synced.
    package func restarted(with image: MemoryImage) -> MemoryFileSystem {
        restarted { _ in (image, image, []) }
    }

    private func restarted(
        _ content: (State) -> (image: MemoryImage, durable: MemoryImage, unsynced: [MemoryImage.Change])
    ) -> MemoryFileSystem {
        state.disk.killAll()
        return MemoryFileSystem(
            state.withLock { state in
                state.writeBackMapped()
                let (image, durable, unsynced) = content(state)
                var next = State(
                    image: image, durable: durable, nextNode: state.nextNode, process: Process(id: state.nextProcess))
                next.unsynced = unsynced
                next.capacity = state.capacity
                next.isCapacityEnforced = state.isCapacityEnforced
                return next
            }, simulator)
    }

    /// From now on no call reaches the disk.
    package func kill() {
        state.withLock { state in
            // Between calls: none is torn.
            state.process.hasTorn = true
            state.die()
        }
    }

    /// Changes the disk without the process, which may have the files open.
    package func tamper(_ change: (inout MemoryImage) -> Void) {
        state.withLock { state in
            state.writeBackMapped()
            change(&state.image)
            change(&state.durable)
            // The next file must not be one that was added.
            state.nextNode = max(state.nextNode, state.image.nextNode, state.durable.nextNode)
            state.readBackMapped()
            state.linked = []
        }
    }

    package var isDead: Bool { state.death.isSet }

    /// Calls made since the last fault was injected.
    package var calls: Int { state.withLock { $0.process.calls } }

    /// Calls made since the file system was created, except those of a killed process.
    package var counts: [Operation: Int] { state.withLock { $0.process.counts } }

    /// Bytes, since the file system was created.
    package var bytesRead: Int { state.withLock { $0.process.bytesRead } }

    package var image: MemoryImage {
        state.withLock { state in
            state.writeBackMapped()
            return state.image
        }
    }

    /// Makes the disk larger or smaller. Only `freeSpace` reflects this; writes still succeed. A file takes whole
    /// blocks.
    package func setCapacity(_ bytes: Int) {
        state.withLock { $0.capacity = bytes }
    }

    package var freeSpace: Int { state.withLock { $0.capacity - $0.image.usedSpace } }

    /// Leaves this much of the disk free, so that writes that need more fail with ENOSPC; nil: unlimited.
    package func limitFreeSpace(to bytes: Int?) {
        state.withLock { state in
            let (capacity, overflow) = state.image.usedSpace.addingReportingOverflow(max(0, bytes ?? .max))
            state.capacity = overflow ? .max : capacity
            state.isCapacityEnforced = bytes != nil
        }
    }

    /// Open descriptors. None may be left once a cache is deallocated.
    package var openCount: Int { state.withLock { $0.process.open.count } }

    /// Those of files that have been deleted.
    package var openDeletedCount: Int {
        state.withLock { state in state.process.open.values.count { state.image.nodes[$0]?.isUnlinked == true } }
    }

    /// The highest number of descriptors open at a time.
    package var peakOpenCount: Int { state.withLock { $0.process.peakOpen } }

    /// From now on opening fails with EMFILE when this many descriptors are open.
    package func limitDescriptors(to most: Int) {
        state.withLock { state in
            state.process.mostOpen = most
            state.process.peakOpen = state.process.open.count
        }
    }

    /// From now on reading a file fails with EIO, or works again.
    package func setUnreadable(_ isUnreadable: Bool, at path: String) {
        state.withLock { state in
            guard let node = state.image.node(at: path) else { return }
            if isUnreadable { state.unreadable.insert(node) } else { state.unreadable.remove(node) }
        }
    }

    /// Runs `body` while reads of other threads wait, so background work gets no further than its next read.
    package func holdingOtherReaders<Result>(_ body: () throws -> Result) rethrows -> Result {
        turnstile.wait()
        holder.withLock { $0 = ObjectIdentifier(Thread.current) }
        isHolding.set()
        defer {
            isHolding.set(false)
            turnstile.signal()
        }
        return try body()
    }

    func awaitTurn() {
        guard isHolding.isSet, holder.withLock({ $0 }) != ObjectIdentifier(Thread.current) else { return }
        turnstile.wait()
        turnstile.signal()
    }

    /// From now on calls `fault` before each call; calls are counted from 1 again.
    package func inject(_ fault: (@Sendable (_ call: Int, Operation) -> Fault?)?) {
        state.withLock { state in
            state.process.calls = 0
            state.process.fault = fault
        }
    }

    /// Puts everything that the process has written on the disk, as the system's own write-back does.
    package func syncAll() {
        state.withLock { state in
            state.durable = state.image
            state.unsynced = []
        }
    }

    /// A possible disk content after a power cut: all synced changes, and any part of the others in any order.
    package func imageAfterPowerCut(using generator: inout SeededGenerator) -> MemoryImage {
        var (image, changes) = state.withLock { ($0.durable, $0.unsynced) }
        let survival = [0, 10, 50, 90, 100].randomElement(using: &generator) ?? 50
        for change in changes where generator.chance(survival) {
            if case .write(let file, let offset, let bytes) = change, generator.chance(30) {
                let kept = Int.random(in: 0...bytes.count, using: &generator)
                // The size reached the disk, the tail did not.
                let tail = generator.chance(50) ? [UInt8](repeating: 0, count: bytes.count - kept) : []
                image.apply(.write(file: file, offset: offset, bytes: bytes.prefix(kept) + tail))
            } else {
                image.apply(change)
            }
        }
        image.boot += 1
        return image
    }

    func call<Result>(
        _ operation: Operation, _ subject: (any CustomStringConvertible)? = nil,
        _ body: (inout State) throws(Errno) -> Result
    ) throws(Errno) -> Result {
        simulator?.step(operation.rawValue) { "\(operation) \(subject?.description ?? "")" }
        var hold: Hold?
        let result = try state.withLock { state throws(Errno) -> Result? in
            if state.process.isDead { throw .io }
            state.process.calls += 1
            state.process.counts[operation, default: 0] += 1
            switch state.process.fault?(state.process.calls, operation) {
            case nil: return try body(&state)
            case .fail(let error): throw error
            case .kill:
                // Only a write that is killed leaves a part; without a simulation, the next write that fails.
                state.process.hasTorn = simulator != nil && operation != .write
                state.die()
                throw .io
            case .hold(let found):
                hold = found
                return nil
            }
        }
        if let result { return result }
        hold?.reached.signal()
        hold?.free.wait()
        return try state.withLock { state throws(Errno) in
            if state.process.isDead { throw .io }
            return try body(&state)
        }
    }
}
