#if canImport(Compression)
    import Compression
#elseif Zlib
    import CZlib
#endif
#if Zlib || canImport(Compression)
    package import LarderFoundation

    /// Bytes as a stream of DEFLATE (RFC 1951), behind their number in 8 little-endian bytes.
    package enum Deflate {
        private static let headLength = 8
        /// The most that a library takes at once.
        private static let longest = Int(clamping: UInt32.max)
        /// A stream stands for at most so many times its own length.
        private static let greatestRatio = 1032

        /// Nil unless it gets shorter. O(size).
        package static func compress(_ data: Data) -> Data? {
            let room = data.count - headLength - 1
            guard room > 0, data.count <= longest else { return nil }
            var result = Data(count: headLength + room)
            let length = result.withUnsafeMutableBytes { buffer in
                buffer.storeBytes(of: UInt64(data.count).littleEndian, as: UInt64.self)
                let stream = UnsafeMutableRawBufferPointer(rebasing: buffer[headLength...])
                return data.withUnsafeBytes { shorten($0, into: stream) }
            }
            return length > 0 ? result.prefix(headLength + length) : nil
        }

        /// Nil unless the bytes were made by `compress`, from at most `limit`. Allocates no more than that. O(size).
        package static func expand(_ data: Data, limit: Int) -> Data? {
            let head = data.prefix(headLength).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            let stream = data.dropFirst(headLength)
            guard !stream.isEmpty, stream.count <= longest, let size = Int(exactly: head), size > 0,
                size <= limit, size < longest, size / greatestRatio <= stream.count
            else { return nil }
            // One more, so that no library stops at a full buffer before the end of the stream.
            var result = Data(count: size + 1)
            let length = result.withUnsafeMutableBytes { buffer in
                stream.withUnsafeBytes { lengthen($0, into: buffer) }
            }
            return length == size ? result.prefix(size) : nil
        }
    }
#endif

#if canImport(Compression)
    extension Deflate {
        /// Returns 0 when the stream is longer than `buffer`.
        private static func shorten(_ bytes: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer) -> Int
        {
            compression_encode_buffer(
                buffer.baseAddress!.assumingMemoryBound(to: UInt8.self), buffer.count,
                bytes.baseAddress!.assumingMemoryBound(to: UInt8.self), bytes.count, nil, COMPRESSION_ZLIB)
        }

        /// Returns the number of bytes written to `buffer`; 0 when the stream is damaged or does not end there.
        ///
        /// `compression_decode_buffer` would not tell a stream that is longer, or cut, from one that fits.
        private static func lengthen(_ bytes: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer) -> Int
        {
            let stream = UnsafeMutablePointer<compression_stream>.allocate(capacity: 1)
            defer { stream.deallocate() }
            guard compression_stream_init(stream, COMPRESSION_STREAM_DECODE, COMPRESSION_ZLIB) == COMPRESSION_STATUS_OK
            else { return 0 }
            defer { compression_stream_destroy(stream) }
            stream.pointee.src_ptr = bytes.baseAddress!.assumingMemoryBound(to: UInt8.self)
            stream.pointee.src_size = bytes.count
            stream.pointee.dst_ptr = buffer.baseAddress!.assumingMemoryBound(to: UInt8.self)
            stream.pointee.dst_size = buffer.count
            let status = compression_stream_process(stream, Int32(COMPRESSION_STREAM_FINALIZE.rawValue))
            guard status == COMPRESSION_STATUS_END, stream.pointee.src_size == 0 else { return 0 }
            return buffer.count - stream.pointee.dst_size
        }
    }
#elseif Zlib
    extension Deflate {
        /// Without the header and the checksum of zlib's own format: each entry has one.
        private static let windowBits: Int32 = -15

        /// Returns 0 when the stream is longer than `buffer`.
        private static func shorten(_ bytes: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer) -> Int
        {
            var stream = stream(bytes, buffer)
            guard
                deflateInit2_(
                    &stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                    Int32(MemoryLayout<z_stream>.size)) == Z_OK
            else { return 0 }
            defer { deflateEnd(&stream) }
            return deflate(&stream, Z_FINISH) == Z_STREAM_END ? Int(stream.total_out) : 0
        }

        /// Returns the number of bytes written to `buffer`; 0 when the stream is damaged or does not end there.
        private static func lengthen(_ bytes: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer) -> Int
        {
            var stream = stream(bytes, buffer)
            guard
                inflateInit2_(&stream, windowBits, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK
            else { return 0 }
            defer { inflateEnd(&stream) }
            guard inflate(&stream, Z_FINISH) == Z_STREAM_END, stream.avail_in == 0 else { return 0 }
            return Int(stream.total_out)
        }

        private static func stream(
            _ bytes: UnsafeRawBufferPointer, _ buffer: UnsafeMutableRawBufferPointer
        ) -> z_stream {
            var stream = z_stream()
            stream.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress!.assumingMemoryBound(to: UInt8.self))
            stream.avail_in = UInt32(bytes.count)
            stream.next_out = buffer.baseAddress!.assumingMemoryBound(to: UInt8.self)
            stream.avail_out = UInt32(buffer.count)
            return stream
        }
    }
#endif
