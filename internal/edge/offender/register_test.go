package offender_test

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/offender"
)

// start is a time to count from; the Register has no clock of its own.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// client is one of many clients.
func client(n int) netip.Prefix {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], 198<<24+18<<16+uint32(n))
	return netip.PrefixFrom(netip.AddrFrom4(ip), 32)
}

// TestHolds: the first floods of a client cost it the good standing, the next
// ones keep it away for longer and longer, and then it is forgotten.
func TestHolds(t *testing.T) {
	var holds []time.Duration
	r := offender.New(offender.Config{MostHold: 5 * time.Second, Held: func(who netip.Prefix, hold time.Duration) {
		if who != client(1) {
			t.Errorf("%v was held off", who)
		}
		holds = append(holds, hold)
	}})
	at := start
	is := func(want offender.Standing) {
		t.Helper()
		if got := r.Standing(client(1), at); got != want {
			t.Errorf("after %v the standing is %d, and not %d", at.Sub(start), got, want)
		}
		if got := r.Standing(client(2), at); got != offender.Good {
			t.Errorf("another client's standing is %d", got)
		}
	}
	is(offender.Good)
	for range 2 {
		r.Flooded(client(1), at)
		is(offender.Probation)
	}
	for _, hold := range []time.Duration{1, 2, 4, 5, 5} {
		r.Flooded(client(1), at)
		// A connection from before the hold changes nothing.
		r.Flooded(client(1), at)
		is(offender.Held)
		at = at.Add(hold*time.Second - 1)
		is(offender.Held)
		at = at.Add(1)
		is(offender.Probation)
	}
	if len(holds) != 5 || holds[0] != time.Second || holds[4] != 5*time.Second {
		t.Errorf("the holds were %v", holds)
	}
	at = at.Add(time.Minute - 1)
	is(offender.Probation)
	at = at.Add(1)
	is(offender.Good)
	r.Flooded(client(1), at)
	is(offender.Probation)
}

// TestNobodyIsHeld: with holds of no length there is probation alone, and for
// addresses that stand for many clients too.
func TestNobodyIsHeld(t *testing.T) {
	for _, c := range []struct {
		address string
		most    time.Duration
	}{
		{"198.51.100.1", 0}, {"10.1.2.3", time.Minute}, {"192.168.1.1", time.Minute}, {"100.100.1.1", time.Minute},
		{"fd00::1", time.Minute}, {"fe80::1", time.Minute}, {"::ffff:172.16.0.1", time.Minute},
	} {
		r := offender.New(offender.Config{MostHold: c.most, Held: func(netip.Prefix, time.Duration) { t.Errorf("%s was held off", c.address) }})
		who := offender.Of(netip.MustParseAddr(c.address))
		for range 10 {
			r.Flooded(who, start)
		}
		if got := r.Standing(who, start); got != offender.Probation {
			t.Errorf("the standing of %s is %d", c.address, got)
		}
	}
}

// TestCrowd: many clients that flood once each make all new ones suspects, and
// one client that floods often does not.
func TestCrowd(t *testing.T) {
	r := offender.New(offender.Config{MostHold: time.Minute})
	for range 100 {
		r.Flooded(client(1), start)
	}
	if got := r.Standing(client(999), start); got != offender.Good {
		t.Errorf("after one client's floods the standing of another is %d", got)
	}
	slow := offender.New(offender.Config{MostHold: time.Minute})
	for n := range 100 {
		at := start.Add(time.Duration(n) * time.Second)
		slow.Flooded(client(n), at)
		if got := slow.Standing(client(999), at); got != offender.Good {
			t.Fatalf("after %d floods in as many seconds the standing of another is %d", n+1, got)
		}
	}
	for n := range 100 {
		r.Flooded(client(2+n), start.Add(time.Duration(n)*10*time.Millisecond))
	}
	if got := r.Standing(client(999), start.Add(time.Second)); got != offender.Suspect {
		t.Errorf("among many that flood the standing is %d", got)
	}
	if got := r.Standing(client(999), start.Add(40*time.Second)); got != offender.Good {
		t.Errorf("long after many flooded the standing is %d", got)
	}
}

// TestBound: however many clients flood, a bounded number is remembered, the
// latest among them, and a while later none.
func TestBound(t *testing.T) {
	r := offender.New(offender.Config{MostHold: time.Minute})
	for n := range 50_000 {
		at := start.Add(time.Duration(n) * time.Millisecond / 10)
		r.Flooded(client(n), at)
		if got := r.Standing(client(n), at); got != offender.Probation {
			t.Fatalf("client %d has the standing %d right after its flood", n, got)
		}
	}
	if n := r.Len(); n != 10_000 {
		t.Errorf("%d clients are remembered", n)
	}
	r.Standing(client(1), start.Add(time.Hour))
	if n := r.Len(); n != 0 {
		t.Errorf("%d clients are remembered for ever", n)
	}
}

// TestOf: one client is one address, or one network of IPv6.
func TestOf(t *testing.T) {
	for _, c := range []struct{ address, want string }{
		{"192.0.2.7", "192.0.2.7/32"}, {"::ffff:192.0.2.7", "192.0.2.7/32"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"}, {"fe80::1%eth0", "fe80::/64"},
	} {
		got := offender.Of(netip.MustParseAddr(c.address))
		if got != netip.MustParsePrefix(c.want) {
			t.Errorf("%s is %v, and not %s", c.address, got, c.want)
		}
	}
	nobody := offender.Of(netip.Addr{})
	if nobody.IsValid() {
		t.Errorf("what is no address is %v", nobody)
	}
	r := offender.New(offender.Config{})
	if r.Flooded(nobody, start); r.Len() != 0 {
		t.Error("nobody is remembered")
	}
}
