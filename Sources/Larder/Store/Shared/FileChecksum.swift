import LarderFiles

extension FileSystem {
    /// Returns the XXH64 of the first `size` bytes of a file, read in pieces; nil when there are fewer. O(size).
    func checksum(of file: borrowing FileDescriptor, size: Int) throws(Errno) -> UInt64? {
        var stream = XXH64.Stream()
        var piece = [UInt8](repeating: 0, count: min(max(size, 1), 1 << 20))
        var done = 0
        while size - done > piece.count {
            guard try read(file, at: done, into: &piece) == piece.count else { return nil }
            piece.withBytes { stream.add($0) }
            done += piece.count
        }
        guard try read(file, at: done, into: &piece) >= size - done else { return nil }
        return piece.withBytes { stream.finish($0.part(0..<size - done)) }
    }
}
