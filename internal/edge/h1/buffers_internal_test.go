package h1

import "testing"

// TestBodyBuffers lends long bodies large buffers, and no more of them than the pool may.
func TestBodyBuffers(t *testing.T) {
	var pool BufferPool
	if got := len(pool.getBody(largeBuffer)); got != largeBuffer {
		t.Errorf("a body of %d bytes got %d", largeBuffer, got)
	}
	lent := make([][]byte, maxBodyBuffers)
	for i := range lent {
		if lent[i] = pool.getBody(1 << 20); len(lent[i]) != bodyBuffer {
			t.Fatalf("buffer %d has %d bytes", i, len(lent[i]))
		}
	}
	last := pool.getBody(1 << 20)
	if len(last) != largeBuffer {
		t.Errorf("beyond the bound a buffer has %d bytes", len(last))
	}
	pool.Put(last)
	pool.Put(lent[0][:10])
	if got := len(pool.getBody(1 << 20)); got != bodyBuffer {
		t.Errorf("a buffer that came back was not lent again: got %d", got)
	}
}
