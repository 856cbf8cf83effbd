#if Redis
    import Foundation
    import Larder

    /// The server's answer to the question for its epoch.
    struct RedisEpoch {
        /// The first time that versions cannot express, in milliseconds since 1970: in the year 10889.
        private static let endOfTime: Int64 = 1 << 48

        /// Identifies the server's memory, with the number of evictions so far.
        let name: String
        /// The server's time, in milliseconds since 1970.
        let time: Int64
        /// The part of the name that the server keeps; empty on one that keeps nothing.
        let kept: Data

        init(_ reply: RedisReply) throws {
            guard let parts = reply.elements, parts.count == 3, let name = parts[0].text, let time = parts[1].number,
                (0..<Self.endOfTime).contains(time), let kept = parts[2].data
            else { throw RemoteTierError.nonsense("the question for its epoch") }
            (self.name, self.time, self.kept) = (name, time, kept)
        }
    }
#endif
