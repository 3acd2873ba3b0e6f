package ingress

import "testing"

func (s *suite) testConnection(t *testing.T) {}
func (s *suite) testThrottle(t *testing.T)   {}
