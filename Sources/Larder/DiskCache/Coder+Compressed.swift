#if Zlib || canImport(Compression)
    import LarderFiles
    import LarderFoundation

    extension Coder {
        /// Returns a coder that compresses its bytes, by DEFLATE (RFC 1951).
        ///
        ///     let pages = try Cache(name: "pages", coder: Coder<Page>.json.compressed())
        ///
        /// A value that does not get smaller is stored as it is. Each value records whether it is compressed, so those
        /// that were stored before are read, too. The size of an entry, which limits count, is that of the bytes as
        /// stored.
        ///
        /// Where Apple's Compression framework is missing, it is part of the trait `Zlib`, which needs zlib (Debian:
        /// zlib1g-dev).
        ///
        /// - Parameters:
        ///   - minimumSize: Shorter values are stored as they are; in bytes. Default: 256.
        ///   - limit: Longer values are stored as they are, and a stored value that would become longer is damage, a
        ///     miss. In bytes, at most 4 GiB. Default: 64 MiB.
        /// - Returns: The new coder.
        public func compressed(minimumSize: Int = 256, limit: Int = 64 << 20) -> Coder {
            Coder { [encode] value in
                let encoded = try encode(value)
                let size = encoded.data.count
                guard size >= minimumSize, size <= limit, let short = Deflate.compress(encoded.data) else {
                    return encoded
                }
                return Encoded(data: short, coding: Coding(encoded.coding, with: .deflate))
            } reads: { [reads] stored in
                reads(stored?.removing(.deflate) ?? stored)
            } decode: { [decode] data, stored in
                guard let form = stored?.removing(.deflate) else { return try decode(data, stored) }
                guard let whole = Deflate.expand(data, limit: limit) else { throw CocoaError(.fileReadCorruptFile) }
                return try decode(whole, form)
            }
        }
    }
#endif
