/// A value that one thread at a time has for itself.
///
/// `@unchecked Sendable`: who makes one sees to it that it is used by one thread at a time.
struct Unshared<Value>: @unchecked Sendable {
    let value: Value
}
