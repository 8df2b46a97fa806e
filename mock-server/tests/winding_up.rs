//! A stopped server gives everything back. Alone in its process, because it counts descriptors.

mod support;

use support::{Client, chat, start, wait_for};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

#[test]
fn servers_that_come_and_go_leave_no_descriptor_behind() {
    let round = || {
        let server = start(|options| options.threads = 2);
        let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&server)).collect();
        for (index, client) in clients.iter_mut().enumerate() {
            let fault = ["", "x-mock-fault: hang\r\n", "x-mock-fault: stall-after:1\r\n"][index % 3];
            client.send(&chat(true, fault));
        }
        wait_for("the arrival of all", || server.counters().requests == 8);
        // Some connections idle, some waiting for their client, all of them open.
        drop(server);
    };
    round();
    let before = descriptors();
    (0..10).for_each(|_| round());
    // The kernel takes a ring apart behind the back of its owner.
    wait_for("the return of all descriptors", || descriptors() <= before);
}
