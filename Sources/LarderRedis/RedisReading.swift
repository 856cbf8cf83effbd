#if Redis
    import Foundation
    import Larder

    /// The meaning of a script's reply; nil where it has none.
    struct RedisReading {
        let value: SharedReading

        init?(_ reply: RedisReply, generations count: Int, sizeLimit: Int) {
            guard let parts = reply.elements, parts.count >= 3, let kind = parts[0].number,
                let generations = Self.texts(parts[1]), generations.count == count, let text = parts[2].text
            else { return nil }
            let epoch = text.isEmpty ? nil : text
            guard kind != 0 else {
                value = SharedReading(.missing, generations: generations, epoch: epoch)
                return
            }
            guard parts.count >= 4, let version = parts[3].text.flatMap({ SharedVersion($0) }) else { return nil }
            switch kind {
            case 1: value = SharedReading(.removed(version), generations: generations, epoch: epoch)
            case 2: value = SharedReading(.cleared(version), generations: generations, epoch: epoch)
            case 3, 4:
                guard parts.count >= 7, let left = parts[4].number, let kept = parts[5].number,
                    let age = parts[6].number,
                    (0...SharedLife.longestStale).contains(kept), left >= -1
                else { return nil }
                let life = SharedLife(remaining: left == -1 ? nil : left - kept, keptStale: kept, age: max(0, age))
                if kind == 3 {
                    value = SharedReading(.unchanged(version, life), generations: generations)
                    return
                }
                guard parts.count == 11, let payload = parts[7].data, payload.count <= sizeLimit,
                    let record = parts[8].data, let sum = parts[9].text.flatMap({ UInt64($0, radix: 16) }),
                    let own = Self.texts(parts[10])
                else { return nil }
                let entry = SharedEntry(payload: payload, record: record, checksum: sum)
                value = SharedReading(
                    .value(entry, version, life, generations: own), generations: generations, epoch: epoch)
            default: return nil
            }
        }

        static func outcome(_ reply: RedisReply) -> SharedOutcome? {
            guard let parts = reply.elements, let kind = parts.first?.number else { return nil }
            switch kind {
            case 0: return .done(generations: parts.count > 1 ? texts(parts[1]) ?? [] : [])
            case 1: return parts.count > 1 ? parts[1].text.flatMap { SharedVersion($0) }.map { .superseded($0) } : nil
            case 2: return .cleared
            case 3: return parts.count > 1 ? parts[1].number.map { .ahead(time: $0) } : nil
            case 4: return .missing
            default: return nil
            }
        }

        private static func texts(_ reply: RedisReply) -> [String]? {
            guard let elements = reply.elements else { return nil }
            let texts = elements.compactMap(\.text)
            return texts.count == elements.count ? texts : nil
        }
    }
#endif
