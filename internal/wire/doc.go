// Package wire is the contract between agents, the platform and its clients:
// the messages of its folders, generated from the .proto files in proto/, and
// the few names and rules that both ends share.
//
// The packages are versioned. Fields are added and never change their meaning:
// an agent works with a platform that is one version older or newer.
package wire
