// The only place that knows errno and EINTR.

import LarderFoundation

extension Errno {
    package static let noEntry = Errno(rawValue: ENOENT)
    package static let exists = Errno(rawValue: EEXIST)
    package static let notPermitted = Errno(rawValue: EPERM)
    package static let accessDenied = Errno(rawValue: EACCES)
    /// Beyond the last content of a file.
    package static let noSuchAddress = Errno(rawValue: ENXIO)
    package static let readOnly = Errno(rawValue: EROFS)
    package static let io = Errno(rawValue: EIO)
    package static let noSpace = Errno(rawValue: ENOSPC)
    package static let crossDevice = Errno(rawValue: EXDEV)
    package static let notSupported = Errno(rawValue: ENOTSUP)
    package static let overQuota = Errno(rawValue: EDQUOT)
    package static let tooManyOpenFiles = Errno(rawValue: EMFILE)
    package static let notDirectory = Errno(rawValue: ENOTDIR)
    package static let isDirectory = Errno(rawValue: EISDIR)
    package static let directoryNotEmpty = Errno(rawValue: ENOTEMPTY)
    /// The name of something other than a regular file: the error that O_NOFOLLOW gives for a symbolic link.
    package static let notRegular = Errno(rawValue: ELOOP)
    package static let nameTooLong = Errno(rawValue: ENAMETOOLONG)
    package static let badDescriptor = Errno(rawValue: EBADF)
    package static let invalid = Errno(rawValue: EINVAL)
}

extension Errno: CustomStringConvertible {
    package var description: String { String(cString: strerror(rawValue)) }
}

#if !canImport(Darwin)
    /// `fstatfs` of the C library, whose header Swift does not import.
    @_silgen_name("fstatfs")
    private func fileSystemStatus(_ raw: Int32, _ status: UnsafeMutableRawPointer) -> Int32

    /// `fallocate` of the C library. Mode 1 keeps the size of the file.
    @_silgen_name("fallocate")
    private func allocateBlocks(_ raw: Int32, _ mode: Int32, _ offset: off_t, _ length: off_t) -> Int32
#endif

/// The C calls of the cache: each throws its error and retries on EINTR.
package enum Platform {
    /// Several processes may use a file at the same time, and none is suspended with its locks held.
    package static let runsManyProcesses: Bool = {
        #if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
            false
        #else
            true
        #endif
    }()
    static let workingDirectory = AT_FDCWD
    private static let always = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK

    static func flags(_ use: OpenUse) -> Int32 {
        switch use {
        case .reading: O_RDONLY | always
        case .directory: O_RDONLY | O_DIRECTORY | always
        case .creating: O_WRONLY | O_CREAT | O_EXCL | always
        case .updating: O_RDWR | always
        }
    }

    /// The first half of the random identifier of the current boot; 0 when the system has none.
    static let boot: UInt64 = {
        var text = [UInt8](repeating: 0, count: 64)
        #if canImport(Darwin)
            var length = text.count
            if sysctlbyname("kern.bootsessionuuid", &text, &length, nil, 0) != 0 { return 0 }
        #else
            guard let file = fopen("/proc/sys/kernel/random/boot_id", "re") else { return 0 }
            _ = fread(&text, 1, text.count, file)
            fclose(file)
        #endif
        let digits = text.filter { $0 != UInt8(ascii: "-") }
        return UInt64(String(decoding: digits.prefix(16), as: UTF8.self), radix: 16) ?? 0
    }()

    static var processID: Int32 { getpid() }

    static var userID: UInt32 { geteuid() }

    static func give(_ raw: Int32, to owner: FileOwner) throws(Errno) {
        _ = try retrying { Int(fchown(raw, owner.user, owner.group)) }
    }

    /// The time since 1970.
    static func time() -> (seconds: Int64, nanoseconds: Int64) {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return (Int64(time.tv_sec), Int64(time.tv_nsec))
    }

    /// The time since the system was started, with the time in which it slept; nothing sets it. Nanoseconds.
    static func uptime() -> Int64 {
        #if canImport(Darwin)
            // Not the raw one: the clock is slewed, and would fall behind that.
            let clock = CLOCK_MONOTONIC
        #else
            let clock = CLOCK_BOOTTIME
        #endif
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    static func retrying(_ call: () -> Int) throws(Errno) -> Int {
        while true {
            let result = call()
            if result >= 0 { return result }
            if errno != EINTR { throw Errno(rawValue: errno) }
        }
    }

    static func open(_ path: UnsafePointer<CChar>, in directory: Int32, flags: Int32) throws(Errno) -> Int32 {
        Int32(try retrying { Int(openat(directory, path, flags, mode_t(0o600))) })
    }

    /// Opens a regular file; throws `.notRegular` for anything else.
    static func openRegular(
        _ name: UnsafePointer<CChar>, in directory: Int32, flags: Int32
    ) throws(Errno) -> Int32 {
        var status = stat()
        _ = try retrying { Int(fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW)) }
        guard status.st_mode & mode_t(S_IFMT) == mode_t(S_IFREG) else { throw .notRegular }
        return try open(name, in: directory, flags: flags)
    }

    static func openDirectory(path: UnsafePointer<CChar>) throws(Errno) -> Int32 {
        try open(path, in: workingDirectory, flags: O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    }

    static func openFile(path: UnsafePointer<CChar>) throws(Errno) -> Int32 {
        try open(path, in: workingDirectory, flags: O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    }

    /// Creates a file, with the content of another if the file system can share it.
    static func cloneOrCreate(
        _ source: Int32, as name: UnsafePointer<CChar>, in directory: Int32, _ access: FileAccess
    ) throws(Errno) -> (raw: Int32, isCloned: Bool) {
        #if canImport(Darwin)
            if access == .owner, let raw = clone(source, as: name, in: directory) { return (raw, true) }
        #endif
        let flags = O_RDWR | O_CREAT | O_EXCL | always
        let mode = mode_t(access == .owner ? 0o600 : 0o666)
        let target = Int32(try retrying { Int(openat(directory, name, flags, mode)) })
        return (target, shareBlocks(of: source, with: target))
    }

    #if canImport(Darwin)
        /// Clones, and removes what a clone inherits. Returns nil when that fails; the file then does not exist.
        private static func clone(_ source: Int32, as name: UnsafePointer<CChar>, in directory: Int32) -> Int32? {
            // A compressed file has its content in the attributes that are about to be removed.
            var status = stat()
            guard fstat(source, &status) == 0, status.st_flags & UInt32(UF_COMPRESSED) == 0,
                fclonefileat(source, directory, name, UInt32(CLONE_NOFOLLOW | CLONE_NOOWNERCOPY)) == 0
            else { return nil }
            let plain = openat(directory, name, O_RDONLY | always)
            defer { if plain >= 0 { close(plain) } }
            if plain >= 0, fchflags(plain, 0) == 0, fchmod(plain, mode_t(0o600)) == 0, removeAttributes(plain) {
                let raw = openat(directory, name, O_RDWR | always)
                if raw >= 0 { return raw }
            }
            unlinkat(directory, name, 0)
            return nil
        }

        private static func removeAttributes(_ raw: Int32) -> Bool {
            let length = flistxattr(raw, nil, 0, 0)
            if length <= 0 { return length == 0 }
            var names = [CChar](repeating: 0, count: length)
            guard flistxattr(raw, &names, length, 0) == length else { return false }
            return names.split(separator: 0).allSatisfy { fremovexattr(raw, Array($0) + [0], 0) == 0 }
        }
    #endif

    /// Makes a new file share all blocks of another, on file systems that can (btrfs, xfs, bcachefs). Returns false
    /// when nothing was done.
    static func shareBlocks(of source: Int32, with target: Int32) -> Bool {
        #if canImport(Glibc)
            // FICLONE from linux/fs.h, a macro that Swift does not import.
            return ioctl(target, 0x4004_9409, source) == 0
        #else
            return false
        #endif
    }

    /// Throws no error for an offset at or beyond the end: there is no content.
    static func content(of raw: Int32, from offset: Int) -> Range<Int>? {
        // SEEK_DATA and SEEK_HOLE, macros that Swift does not import.
        #if canImport(Darwin)
            let (dataSeek, holeSeek): (Int32, Int32) = (4, 3)
        #else
            let (dataSeek, holeSeek): (Int32, Int32) = (3, 4)
        #endif
        do throws(Errno) {
            let begin = try retrying { Int(lseek(raw, off_t(offset), dataSeek)) }
            return begin..<(try retrying { Int(lseek(raw, off_t(begin), holeSeek)) })
        } catch .noSuchAddress {
            return nil
        } catch {
            return offset..<Int.max
        }
    }

    /// The home of this process's user according to the system's list of users; nil: it has no such user.
    static var home: String? {
        var buffer = [CChar](repeating: 0, count: 16 << 10)
        var (user, found) = (passwd(), UnsafeMutablePointer<passwd>?.none)
        guard getpwuid_r(geteuid(), &user, &buffer, buffer.count, &found) == 0, found != nil else { return nil }
        return user.pw_dir.map { String(cString: $0) }
    }

    /// Never retried: after EINTR the descriptor is closed anyway.
    static func close(_ raw: Int32) {
        #if canImport(Darwin)
            _ = Darwin.close(raw)
        #elseif canImport(Glibc)
            _ = Glibc.close(raw)
        #elseif canImport(Musl)
            _ = Musl.close(raw)
        #else
            _ = Android.close(raw)
        #endif
    }

    static func status(_ fill: (inout stat) -> Int32) throws(Errno) -> FileStatus {
        var status = stat()
        _ = try retrying { Int(fill(&status)) }
        let kind: FileKind =
            switch status.st_mode & mode_t(S_IFMT) {
            case mode_t(S_IFREG): .regular
            case mode_t(S_IFDIR): .directory
            default: .other
            }
        let identity = FileIdentity(
            device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(truncatingIfNeeded: status.st_ino))
        #if canImport(Darwin)
            let changed = status.st_ctimespec
        #else
            let changed = status.st_ctim
        #endif
        return FileStatus(
            kind: kind, size: Int(status.st_size), identity: identity, links: Int(status.st_nlink),
            owner: FileOwner(user: status.st_uid, group: status.st_gid),
            isWritableByOthers: status.st_mode & mode_t(0o022) != 0,
            changed: Int64(changed.tv_sec) &* 1_000_000_000 &+ Int64(changed.tv_nsec))
    }

    static func status(raw: Int32) throws(Errno) -> FileStatus {
        try status { fstat(raw, &$0) }
    }

    static func status(_ name: UnsafePointer<CChar>, in directory: Int32) throws(Errno) -> FileStatus {
        try status { fstatat(directory, name, &$0, AT_SYMLINK_NOFOLLOW) }
    }

    static func read(_ raw: Int32, _ buffer: UnsafeMutableRawBufferPointer, at offset: Int) throws(Errno) -> Int {
        try retrying { pread(raw, buffer.baseAddress, buffer.count, off_t(offset)) }
    }

    static func write(
        _ raw: Int32, _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, at offset: Int
    ) throws(Errno) -> Int {
        if tail.isEmpty {
            return try retrying { pwrite(raw, head.baseAddress, head.count, off_t(offset)) }
        }
        return try withUnsafeTemporaryAllocation(of: iovec.self, capacity: 2) { parts throws(Errno) in
            parts[0] = iovec(
                iov_base: UnsafeMutableRawPointer(mutating: head.baseAddress), iov_len: numericCast(head.count))
            parts[1] = iovec(
                iov_base: UnsafeMutableRawPointer(mutating: tail.baseAddress), iov_len: numericCast(tail.count))
            return try retrying { pwritev(raw, parts.baseAddress!, 2, off_t(offset)) }
        }
    }

    static func truncate(_ raw: Int32, to size: Int) throws(Errno) {
        _ = try retrying { Int(ftruncate(raw, off_t(size))) }
    }

    static func allocate(_ raw: Int32, _ bytes: Range<Int>) throws(Errno) {
        do throws(Errno) {
            #if canImport(Darwin)
                var status = stat()
                _ = try retrying { Int(fstat(raw, &status)) }
                var range = fstore_t(
                    fst_flags: UInt32(F_ALLOCATEALL), fst_posmode: F_PEOFPOSMODE, fst_offset: 0,
                    fst_length: max(0, off_t(bytes.upperBound) - status.st_size), fst_bytesalloc: 0)
                if range.fst_length > 0 { _ = try retrying { Int(fcntl(raw, F_PREALLOCATE, &range)) } }
            #else
                _ = try retrying { Int(allocateBlocks(raw, 1, off_t(bytes.lowerBound), off_t(bytes.count))) }
            #endif
        } catch {
            throw [EOPNOTSUPP, ENOTSUP, ENOSYS].contains(error.rawValue) ? .notSupported : error
        }
    }

    static func sync(_ raw: Int32) throws(Errno) {
        #if canImport(Darwin)
            // On Apple platforms fsync leaves the bytes in the drive's cache. File systems without F_FULLFSYNC get
            // fsync.
            if fcntl(raw, F_FULLFSYNC) == 0 { return }
            _ = try retrying { Int(fsync(raw)) }
        #else
            _ = try retrying { Int(fdatasync(raw)) }
        #endif
    }

    static func makeDirectory(_ path: UnsafePointer<CChar>, in directory: Int32) throws(Errno) {
        _ = try retrying { Int(mkdirat(directory, path, mode_t(0o700))) }
    }

    static func rename(
        _ name: UnsafePointer<CChar>, in directory: Int32, to newName: UnsafePointer<CChar>, in newDirectory: Int32
    ) throws(Errno) {
        _ = try retrying { Int(renameat(directory, name, newDirectory, newName)) }
    }

    static func remove(_ name: UnsafePointer<CChar>, in directory: Int32, isDirectory: Bool) throws(Errno) {
        _ = try retrying { Int(unlinkat(directory, name, isDirectory ? AT_REMOVEDIR : 0)) }
    }

    static func freeSpace(_ raw: Int32) throws(Errno) -> Int {
        #if canImport(Darwin)
            // Darwin's statvfs counts blocks in 32 bits.
            var status = statfs()
            _ = try retrying { Int(fstatfs(raw, &status)) }
            let block = UInt64(status.f_bsize)
        #else
            var status = statvfs()
            _ = try retrying { Int(fstatvfs(raw, &status)) }
            let block = UInt64(status.f_frsize)
        #endif
        let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: block)
        return overflow ? .max : Int(clamping: bytes)
    }

    static func lock(_ raw: Int32, shared: Bool) throws(Errno) -> Bool {
        do {
            _ = try retrying { Int(flock(raw, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB)) }
            return true
        } catch {
            if error.rawValue == EWOULDBLOCK { return false }
            throw error
        }
    }

    static func unlock(_ raw: Int32) {
        _ = flock(raw, LOCK_UN)
    }

    /// The path to which a symbolic link leads.
    static func target(ofLink path: String) throws(Errno) -> String {
        try withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) { buffer throws(Errno) in
            let length = try retrying { readlink(path, buffer.baseAddress!, buffer.count) }
            return String(decoding: buffer[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
    }

    /// The first 4 KiB of a file of the system; nil: there is none.
    static func text(ofFile path: String) -> String? {
        guard let file = fopen(path, "re") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 4096)
        return String(decoding: bytes[..<fread(&bytes, 1, bytes.count, file)], as: UTF8.self)
    }

    /// Lets other threads and processes run for some microseconds.
    static func pause(microseconds: UInt32) {
        usleep(microseconds)
    }

    static func map(_ raw: Int32, length: Int) throws(Errno) -> UnsafeMutableRawPointer {
        let start = mmap(nil, length, PROT_READ | PROT_WRITE, MAP_SHARED, raw, 0)
        guard let start, start != MAP_FAILED else { throw Errno(rawValue: errno) }
        return start
    }

    /// Maps memory of this process, filled with zeros.
    static func mapZeros(length: Int) throws(Errno) -> UnsafeMutableRawPointer {
        let start = mmap(nil, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0)
        guard let start, start != MAP_FAILED else { throw Errno(rawValue: errno) }
        return start
    }

    /// Replaces a mapping by memory of this process, filled with zeros.
    static func replaceWithZeros(_ start: UnsafeMutableRawPointer, length: Int) {
        _ = mmap(start, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_FIXED, -1, 0)
    }

    static func unmap(_ start: UnsafeMutableRawPointer, length: Int) {
        munmap(start, length)
    }

    /// The place of a page on a disk. Ext2 to ext4 and tmpfs keep their blocks; XFS after a reflink copy, Btrfs, and
    /// what may be below overlayfs copy them. On SquashFS, EROFS and ISO 9660 nobody writes. Of the disks of Apple
    /// platforms, APFS and HFS+ are known.
    static func pagePlace(_ raw: Int32) throws(Errno) -> PagePlace? {
        #if canImport(Darwin)
            var status = statfs()
            _ = try retrying { Int(fstatfs(raw, &status)) }
            let name = withUnsafeBytes(of: status.f_fstypename) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            return ["apfs", "hfs"].contains(name) ? .directory : nil
        #else
            // From linux/magic.h.
            return switch try diskType(raw) {
            case 0xef53, memoryType, 0x7371_7368, 0xe0f5_e1e2, 0x9660: .directory
            case 0x5846_5342, 0x9123_683e, 0x794c_7630: .memory
            default: nil
            }
        #endif
    }

    /// The directory of the shared memory of the system, on Linux.
    static let sharedMemory = "/dev/shm"

    /// True when the files of a directory are in memory.
    static func isInMemory(_ raw: Int32) throws(Errno) -> Bool {
        #if canImport(Darwin)
            return false
        #else
            return try diskType(raw) == memoryType
        #endif
    }

    #if !canImport(Darwin)
        /// The type of tmpfs.
        private static let memoryType = 0x0102_1994

        /// `struct statfs` begins with the type, and has some 120 bytes.
        private static func diskType(_ raw: Int32) throws(Errno) -> Int {
            try withUnsafeTemporaryAllocation(of: Int.self, capacity: 64) { status throws(Errno) in
                _ = try retrying { Int(fileSystemStatus(raw, UnsafeMutableRawPointer(status.baseAddress!))) }
                return status[0] & 0xffff_ffff
            }
        }
    #endif

    /// Throws when the effective user may not create files in a directory.
    static func requireWritable(_ raw: Int32) throws(Errno) {
        _ = try retrying { Int(faccessat(raw, ".", W_OK, AT_EACCESS)) }
    }

    private static func byteLock(_ type: Int32, _ bytes: Range<Int>) -> flock {
        var lock = flock()
        lock.l_type = numericCast(type)
        lock.l_whence = numericCast(SEEK_SET)
        lock.l_start = off_t(bytes.lowerBound)
        lock.l_len = off_t(bytes.count)
        return lock
    }

    static func lock(_ raw: Int32, byte: Int) throws(Errno) -> Bool {
        var lock = byteLock(Int32(F_WRLCK), byte..<byte + 1)
        do {
            _ = try retrying { Int(fcntl(raw, F_SETLK, &lock)) }
            return true
        } catch {
            if error.rawValue == EACCES || error.rawValue == EAGAIN { return false }
            throw error
        }
    }

    static func unlock(_ raw: Int32, byte: Int) {
        var lock = byteLock(Int32(F_UNLCK), byte..<byte + 1)
        _ = fcntl(raw, F_SETLK, &lock)
    }

    static func lockedByte(_ raw: Int32, in bytes: Range<Int>) throws(Errno) -> Int? {
        var lock = byteLock(Int32(F_WRLCK), bytes)
        _ = try retrying { Int(fcntl(raw, F_GETLK, &lock)) }
        return Int32(lock.l_type) == Int32(F_UNLCK) ? nil : max(bytes.lowerBound, Int(lock.l_start))
    }

    /// Calls `body` with each name of a directory and its kind (nil if the file system does not report it), until it
    /// returns `false`.
    static func list(_ raw: Int32, _ body: (String, FileKind?) throws(Errno) -> Bool) throws(Errno) {
        // Opens its own descriptor: readdir moves a position that a duplicate would share.
        let own = try open(".", in: raw, flags: O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard let stream = fdopendir(own) else {
            let error = Errno(rawValue: errno)
            close(own)
            throw error
        }
        defer { closedir(stream) }
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                if errno != 0 { throw Errno(rawValue: errno) }
                return
            }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { field in
                field.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: field.pointee)) {
                    String(cString: $0)
                }
            }
            if name == "." || name == ".." { continue }
            let kind: FileKind? =
                switch Int32(entry.pointee.d_type) {
                case Int32(DT_UNKNOWN): nil
                case Int32(DT_REG): .regular
                case Int32(DT_DIR): .directory
                default: .other
                }
            if try !body(name, kind) { return }
        }
    }
}
