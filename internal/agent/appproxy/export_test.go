package appproxy

// MaxTreeViewers is how many may look at trees at a time.
const MaxTreeViewers = maxTreeViewers

// Following is how many watches there are for trees.
func (s *Service) Following() int {
	s.scopes.mu.Lock()
	defer s.scopes.mu.Unlock()
	return len(s.scopes.open)
}
