package proxy

// Clients returns the number of connections, which tests wait for.
func (p *Proxy) Clients() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Resting returns the number of connections that rest.
func (p *Proxy) Resting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.resting)
}
