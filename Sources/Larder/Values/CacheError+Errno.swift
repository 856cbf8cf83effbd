import LarderFiles

extension CacheError {
    /// Translates an error of the file system. Error numbers become codes only here.
    init(_ errno: Errno, doing what: String, path: String) {
        let code: Code =
            switch errno {
            case .noSpace, .overQuota: .noSpace
            default: .io
            }
        self.init(code: code, message: "Could not \(what): \(errno).", path: path, errno: errno.rawValue)
    }
}

/// Runs a file-system call and translates its error.
func translating<Result>(
    _ what: @autoclosure () -> String, at path: @autoclosure () -> String, _ body: () throws(Errno) -> Result
) throws(CacheError) -> Result {
    do {
        return try body()
    } catch {
        throw CacheError(error, doing: what(), path: path())
    }
}
