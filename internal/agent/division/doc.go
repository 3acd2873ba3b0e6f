// Package division divides Applications between replicas of an agent.
//
//	member Lease   each replica holds one and renews it; its annotation is the
//	               generation that the replica has acknowledged
//	table          a Lease whose annotation lists the members of each generation
//	owner          the member of a generation with the highest rendezvous hash of
//	               an Application
//	claim          the permission to work on an Application for a while
//
// A replica that appears or disappears makes a new generation. A replica that
// sees it ends its work on what it loses, and then acknowledges the generation in
// its Lease. The new owner begins when every replica that may have had the
// Application has acknowledged a generation in which it is not the owner, or has
// no Lease any more. So an Application that moves waits for its last owner only.
//
// # Guarantees
//
// At no time two replicas have a claim on one Application. A replica that cannot
// renew its Lease loses its claims before others may delete the Lease: it counts
// from before the request, they count from when they saw the result. A replica
// that was paused finds its claims expired by the clock, and every write checks
// that once more right before it is sent.
//
// Any replica may delete the Lease of one that is gone and write the next
// generation: both are conditional on the version that was read. There is no
// leader to wait for.
//
// # Limits
//
// A request that was sent before a pause can arrive late. A Lease that a user
// deletes moves the Applications of its replica at once, while that replica works
// for up to a renewal.
//
// See decision 0078 in docs/decisions: agents divide Applications.
package division
