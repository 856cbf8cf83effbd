import LarderFiles

/// The parts of a store that all its owners share. An object: reading one of its parts copies none of the others.
final class StoreContext: Sendable {
    let fileSystem: any FileSystem
    let clock: any Clock
    let settings: StoreSettings
    let path: String
    let index: Index
    let disk: DiskQueue
    let provisional: ProvisionalState
    let reporter = Reporter()
    let maintenance = MaintenanceQueue()

    init(
        _ directory: StoreDirectory, _ index: Index, _ reconciliation: Reconciliation, clock: any Clock,
        settings: StoreSettings
    ) {
        fileSystem = directory.fileSystem
        path = directory.path
        self.clock = clock
        self.settings = settings
        self.index = index
        disk = DiskQueue(directory, path: directory.path)
        provisional = ProvisionalState(reconciliation)
    }
}
