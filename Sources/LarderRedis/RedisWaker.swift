#if Redis
    import Foundation

    /// Ends the waiting of the loop's thread, through a pipe.
    ///
    /// While the process has no descriptors left there is no pipe; the thread then looks every 10 ms.
    final class RedisWaker: Sendable {
        /// -1 without a pipe: `poll` leaves such a file out.
        private let ends: (read: Int32, write: Int32)

        init() {
            var files: [Int32] = [-1, -1]
            guard Foundation.pipe(&files) == 0 else {
                ends = (-1, -1)
                return
            }
            for file in files {
                _ = fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK)
                // A program that this one starts has no use for it.
                _ = fcntl(file, F_SETFD, FD_CLOEXEC)
            }
            ends = (files[0], files[1])
        }

        deinit {
            guard ends.read >= 0 else { return }
            close(ends.read)
            close(ends.write)
        }

        func wake() {
            var byte: UInt8 = 1
            _ = write(ends.write, &byte, 1)
        }

        /// Waits until something can be read from or written to one of the files, somebody wakes the thread, or `time`
        /// has passed.
        ///
        /// - Returns: Whether each file is ready, or has failed.
        func wait(for files: [(file: Int32, events: Int32)], _ time: Duration) -> [Bool] {
            let time = ends.read < 0 ? min(time, .milliseconds(10)) : time
            var polled = [pollfd(fd: ends.read, events: Int16(POLLIN), revents: 0)]
            polled += files.map { pollfd(fd: $0.file, events: Int16($0.events), revents: 0) }
            let milliseconds = Int32(min(60_000, max(0, (time / .milliseconds(1)).rounded(.up))))
            guard poll(&polled, nfds_t(polled.count), milliseconds) > 0 else { return files.map { _ in false } }
            if polled[0].revents != 0 { empty() }
            return polled.dropFirst().map { $0.revents != 0 }
        }

        private func empty() {
            var bytes = [UInt8](repeating: 0, count: 256)
            while read(ends.read, &bytes, bytes.count) > 0 {}
        }
    }
#endif
