/// The seed of the hashes of keys, where a simulation fixes it; a random one otherwise.
package enum HashSeed {
    /// Set before the first key is made.
    package static let fixed = ProcessLock<UInt64?>(nil)
}
