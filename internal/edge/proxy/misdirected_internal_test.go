package proxy

import "testing"

// A host belongs to the most specific name of its listener, and is served only on a
// connection that belongs to the same one.
func TestMisdirected(t *testing.T) {
	shared := []string{"", "second.org", "*.wildcard.org", "fourth.wildcard.org"}
	for _, test := range []struct {
		names            []string
		serverName, host string
		want             bool
	}{
		{shared, "example.org", "example.org", false},
		{shared, "example.org", "other.org", false},
		{shared, "example.org", "second.org", true},
		{shared, "second.org", "second.org", false},
		{shared, "second.org", "example.org", true},
		{shared, "third.wildcard.org", "fifth.wildcard.org", false},
		{shared, "third.wildcard.org", "a.fifth.wildcard.org", false},
		{shared, "third.wildcard.org", "fourth.wildcard.org", true},
		{shared, "third.wildcard.org", "wildcard.org", true},
		{shared, "fourth.wildcard.org", "fifth.wildcard.org", true},
		{shared, "", "example.org", false},
		{shared, "", "second.org", true},
		{shared, "example.org", "", false},
		{shared, "second.org", "", true},
		{shared[1:], "second.org", "unknown.org", false}, // no route, and no other connection would have one
		{shared[1:], "unknown.org", "second.org", true},
		{shared[1:2], "unknown.org", "second.org", false}, // one name has nothing to keep apart
		{[]string{"*.org", "*.a.org"}, "x.org", "x.a.org", true},
		{[]string{"*.a.org", "*.org"}, "x.org", "x.a.org", true},
		{nil, "a.org", "b.org", false},
	} {
		var hosts ListenerHosts
		hosts.Set(test.names)
		if got := hosts.misdirected(test.serverName, test.host); got != test.want {
			t.Errorf("%q: %q on the connection of %q: %t", test.names, test.host, test.serverName, got)
		}
	}
}
