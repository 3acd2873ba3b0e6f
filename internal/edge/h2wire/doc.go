// Package h2wire writes the frames of a connection of HTTP/2. Package h2 uses it
// towards clients, and package h2client towards endpoints.
//
// Frames are added to memory, under the lock of the connection, and one user of
// the connection at a time writes all that there is, without the lock. So adding
// a frame never waits for the peer, and what many streams have added at the same
// time is one write. The users are goroutines, or tasks of the event loop that has
// the socket (decisions 0088 and 0090).
//
// Reading, windows and compression are the caller's.
package h2wire
