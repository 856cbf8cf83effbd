/// A value that only one thread uses at a time.
///
/// `@unchecked Sendable`: the creator ensures this.
struct Unshared<Value>: @unchecked Sendable {
    let value: Value
}
