// Package traffic runs an edge and an agent in a cluster, with an application from
// Git and load, and looks at what is told of its traffic.
//
// It is for tests only.
package traffic
