import LarderFiles

/// What all handles on one directory share; the first opener's count.
struct StoreSettings: Hashable, Sendable {
    var slidingExpiry: Bool
    var saveDelay: Duration
    var sweepInterval: Duration?
    var durability: Durability
}
