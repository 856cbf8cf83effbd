// The system's libraries under one name: the part of Foundation that the library needs (`Data`, `Date`, `URL`, JSON,
// typed property lists), and the C library.
//
// On Linux that part is a library of its own. All of Foundation brings the Unicode data, some 45 MB of a statically
// linked program, as soon as that program uses one symbol of it.

#if canImport(FoundationEssentials) && !canImport(Darwin)
    @_exported import FoundationEssentials
#else
    @_exported import Foundation
#endif

#if canImport(Darwin)
    @_exported import Darwin
#elseif canImport(Glibc)
    @_exported import Glibc
#elseif canImport(Musl)
    @_exported import Musl
#elseif canImport(Android)
    @_exported import Android
#else
    #error("Larder needs a POSIX C library: Darwin, Glibc, Musl or Android.")
#endif
