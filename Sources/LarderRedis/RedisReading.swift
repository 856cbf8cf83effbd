#if Redis
    import Foundation
    import Larder

    /// The meaning of a script's reply; nil where it has none.
    struct RedisReading {
        let value: RemoteReading

        init?(_ reply: RedisReply, sizeLimit: Int) {
            guard let parts = reply.elements, parts.count >= 3, let kind = parts[0].number,
                let scopes = Self.scopes(parts[1]), let text = parts[2].text
            else { return nil }
            let epoch = text.isEmpty ? nil : text
            guard kind != 0 else {
                value = RemoteReading(.missing, scopes: scopes, epoch: epoch)
                return
            }
            guard parts.count >= 4, let version = parts[3].text.flatMap({ RemoteVersion($0) }) else { return nil }
            switch kind {
            case 1: value = RemoteReading(.removed(version), scopes: scopes, epoch: epoch)
            case 2: value = RemoteReading(.cleared(version), scopes: scopes, epoch: epoch)
            case 3, 4:
                guard parts.count >= 7, let left = parts[4].number, let kept = parts[5].number,
                    let age = parts[6].number,
                    (0...RemoteLife.longestStale).contains(kept), left >= -1
                else { return nil }
                let life = RemoteLife(remaining: left == -1 ? nil : left - kept, keptStale: kept, age: max(0, age))
                if kind == 3 {
                    value = RemoteReading(.unchanged(version, life), scopes: scopes)
                    return
                }
                guard parts.count == 10, let payload = parts[7].data, payload.count <= sizeLimit,
                    let record = parts[8].data, let sum = parts[9].text.flatMap({ UInt64($0, radix: 16) })
                else { return nil }
                let entry = RemoteEntry(payload: payload, record: record, checksum: sum)
                value = RemoteReading(.value(entry, version, life), scopes: scopes, epoch: epoch)
            default: return nil
            }
        }

        static func outcome(_ reply: RedisReply) -> RemoteOutcome? {
            guard let parts = reply.elements, let kind = parts.first?.number else { return nil }
            switch kind {
            case 0: return .done
            case 1: return parts.count > 1 ? parts[1].text.flatMap { RemoteVersion($0) }.map { .superseded($0) } : nil
            case 2: return .cleared
            case 3: return parts.count > 1 ? parts[1].number.map { .ahead(time: $0) } : nil
            case 4: return .missing
            default: return nil
            }
        }

        private static func scopes(_ reply: RedisReply) -> RemoteReading.Scopes? {
            switch reply.number {
            case 0: .current
            case 1: .unknown
            case 2: .cleared
            default: nil
            }
        }
    }
#endif
