// `URLRequest` and `URLSession`, which are a library of their own on Linux. Users of this module get them with it.
#if canImport(FoundationNetworking)
    @_exported import FoundationNetworking
#else
    @_exported import Foundation
#endif
