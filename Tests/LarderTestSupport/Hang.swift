package import Dispatch

extension DispatchTime {
    /// Ten minutes from now. Whoever waits until then hangs: no test waits for so long on any machine.
    package static var hang: DispatchTime { .now() + 600 }
}
