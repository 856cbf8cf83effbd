#if Curl
    import LarderHTTP

    extension Scenario {
        static var httpOverCurl: [Scenario] { [throughput("HTTP reload, libcurl", CurlTransport())] }
    }
#else
    extension Scenario {
        static var httpOverCurl: [Scenario] { [] }
    }
#endif
