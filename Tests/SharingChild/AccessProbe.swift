import Foundation
import Larder
import LarderFiles

/// Opens a directory in ways that a test cannot: as another user, or where nothing can be written.
enum AccessProbe: String {
    case asUser = "as-user"
    case fill
    case fillAsUser = "fill-as-user"
    case readOnly = "read-only"
    /// Stores one value under the number of the process, and ends without closing the cache.
    case leave

    /// The user as which some run.
    private static let user: uid_t = 1000

    /// Ends the process: 0 when all is right, or the number of what is not.
    func run(_ directory: URL) throws -> Never {
        let isEmpty = self == .fill || self == .fillAsUser || self == .leave
        if self == .asUser || self == .fillAsUser, setgid(Self.user) != 0 || setuid(Self.user) != 0 { exit(10) }
        let cache = try DiskCache(directory: directory)
        if self == .leave {
            try cache.setString("v", forKey: "\(getpid())")
            exit(0)
        }
        if !isEmpty, cache.string(forKey: "k") != "v" { exit(11) }
        if self == .readOnly {
            for change in [
                { try cache.setString("b", forKey: "k") }, { try cache.removeValue(forKey: "k") },
                { try cache.removeAll() },
            ] as [() throws -> Void] {
                if !Self.isRefused(change) { exit(12) }
            }
        } else {
            try cache.setString("v", forKey: "k")
            try cache.setString("\(self)", forKey: "probe")
        }
        if cache.string(forKey: "k") != "v" { exit(13) }
        try cache.close()
        exit(0)
    }

    private static func isRefused(_ change: () throws -> Void) -> Bool {
        do {
            try change()
            return false
        } catch {
            let isRefused = (error as? CacheError)?.errno == EROFS && "\(error)".contains("Read-only file system")
            if !isRefused { FileHandle.standardError.write(Data("\(error)\n".utf8)) }
            return isRefused
        }
    }
}
