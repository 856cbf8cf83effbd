#if Curl
    import CCurl
    import Dispatch
    import Foundation
    import LarderFiles

    /// The transfers of a transport, all on one thread: libcurl's multi interface with its pool of connections.
    ///
    /// `@unchecked Sendable`: only the loop's thread uses `active` and `handles`, and of libcurl's calls on `multi` all
    /// but `curl_multi_wakeup`, which any thread may call.
    final class CurlLoop: @unchecked Sendable {
        private struct State {
            var commands: [(CurlTransfer.Command, CurlTransfer)] = []
            var isStopped = false
        }

        /// A transfer that libcurl works on, with the memory that it refers to.
        private struct Active {
            let transfer: CurlTransfer
            let fields: UnsafeMutablePointer<curl_slist>?
            /// When it must have a connection: libcurl does not count the time until one is free. Nil once it has.
            var deadline: DispatchTime?
        }

        private let multi: UnsafeMutableRawPointer
        private let state = Lock(State())
        private var active: [UnsafeMutableRawPointer: Active] = [:]
        private var handles: [ObjectIdentifier: UnsafeMutableRawPointer] = [:]

        /// To one host, as in browsers; further requests wait.
        private static let mostConnections = 6

        /// Initializes libcurl, once for the process.
        private static let isReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

        init() {
            precondition(Self.isReady, "libcurl cannot be initialized")
            multi = curl_multi_init()
            ccurl_multi_set_long(multi, CURLMOPT_MAX_HOST_CONNECTIONS, Self.mostConnections)
        }

        deinit {
            curl_multi_cleanup(multi)
        }

        func begin() {
            let thread = Thread { [self] in run() }
            thread.name = "Larder curl"
            thread.start()
        }

        /// Ends the thread once the transfers that are under way have ended.
        func stop() {
            state.withLock { $0.isStopped = true }
            curl_multi_wakeup(multi)
        }

        func send(_ command: CurlTransfer.Command, _ transfer: CurlTransfer) {
            state.withLock { $0.commands.append((command, transfer)) }
            curl_multi_wakeup(multi)
        }

        private func run() {
            while true {
                let (commands, isStopped) = state.withLock { state in
                    defer { state.commands = [] }
                    return (state.commands, state.isStopped)
                }
                for (command, transfer) in commands { perform(command, transfer) }
                var running: Int32 = 0
                curl_multi_perform(multi, &running)
                reap()
                let rest = timeToDeadline()
                if isStopped, active.isEmpty, commands.isEmpty { return }
                // Woken by commands; the time is only an upper bound.
                curl_multi_poll(multi, nil, 0, rest, nil)
            }
        }

        /// Ends the transfers that have waited too long for a connection. Returns the milliseconds until the next one may
        /// have, at most a minute.
        private func timeToDeadline() -> Int32 {
            let now = DispatchTime.now()
            var next = now + .seconds(60)
            for (handle, waiting) in active {
                guard let deadline = waiting.deadline else { continue }
                if ccurl_has_connection(handle) != 0 {
                    active[handle]?.deadline = nil
                } else if deadline > now {
                    next = min(next, deadline)
                } else {
                    remove(handle)
                    waiting.transfer.finish(.failure(CurlError(CURLE_OPERATION_TIMEDOUT)))
                }
            }
            return Int32((next.uptimeNanoseconds - now.uptimeNanoseconds) / 1_000_000) + 1
        }

        private func perform(_ command: CurlTransfer.Command, _ transfer: CurlTransfer) {
            let handle = handles[ObjectIdentifier(transfer)]
            switch command {
            case .start:
                // Cancelled before it began.
                if transfer.hasEnded { return transfer.finish(.failure(CancellationError())) }
                begin(transfer)
            case .proceed:
                if let handle { curl_easy_pause(handle, CURLPAUSE_CONT) }
            case .cancel:
                transfer.finish(.failure(CancellationError()))
                if let handle { remove(handle) }
            }
        }

        private func begin(_ transfer: CurlTransfer) {
            do {
                try start(transfer)
            } catch {
                transfer.finish(.failure(error))
            }
        }

        private func start(_ transfer: CurlTransfer) throws {
            guard let handle = curl_easy_init() else {
                throw CurlError(code: Int(CURLE_OUT_OF_MEMORY.rawValue), message: "No handle.")
            }
            let fields = CurlRequest.configure(handle, transfer.request, transfer.content, isRaw: transfer.isRaw)
            let context = Unmanaged.passUnretained(transfer).toOpaque()
            ccurl_set_pointer(handle, CURLOPT_WRITEDATA, context)
            ccurl_set_pointer(handle, CURLOPT_HEADERDATA, context)
            ccurl_set_callback(handle, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
                guard let context else { return 0 }
                let transfer = Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
                let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return transfer.receive(line: line) ? size * count : 0
            }
            ccurl_set_callback(handle, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
                guard let context else { return 0 }
                let transfer = Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
                let part = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return transfer.receive(part: part) ? size * count : ccurl_pause
            }
            // Retained here while libcurl refers to it.
            let deadline = DispatchTime.now() + .seconds(CurlRequest.seconds(of: transfer.request))
            active[handle] = Active(transfer: transfer, fields: fields, deadline: deadline)
            handles[ObjectIdentifier(transfer)] = handle
            curl_multi_add_handle(multi, handle)
        }

        /// Ends the transfers that libcurl has finished.
        private func reap() {
            var left: Int32 = 0
            while let message = curl_multi_info_read(multi, &left) {
                guard ccurl_is_done(message) != 0, let handle = message.pointee.easy_handle else { continue }
                let result = ccurl_result(message)
                let transfer = active[handle]?.transfer
                remove(handle)
                if let transfer, transfer.repeatsRaw() {
                    begin(transfer)
                    continue
                }
                guard result != CURLE_OK else {
                    transfer?.finish(.success(()))
                    continue
                }
                transfer?.finish(.failure(CurlError(result)))
            }
        }

        private func remove(_ handle: UnsafeMutableRawPointer) {
            curl_multi_remove_handle(multi, handle)
            curl_easy_cleanup(handle)
            guard let ended = active.removeValue(forKey: handle) else { return }
            handles[ObjectIdentifier(ended.transfer)] = nil
            curl_slist_free_all(ended.fields)
        }
    }
#endif
