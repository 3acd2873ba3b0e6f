package notify

import (
	"fmt"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/notify/message"
)

// TestRecordOfArgoCD: what Argo CD's controller has recorded counts as sent.
func TestRecordOfArgoCD(t *testing.T) {
	result := message.Result{Key: "[0].y7b5sbwa2Q329JYH755peeq-fBs", Triggered: true, OncePer: "abc"}
	key := entryKey("on-deployed", result, Destination{Service: "slack", Recipient: "ops"})
	read := readRecord(`{"abc:on-deployed:[0].y7b5sbwa2Q329JYH755peeq-fBs:slack:ops":1767261630}`)
	if !read.hasSent(key) || read.hasIntent(key) {
		t.Errorf("%s is not in %v", key, read)
	}
	if broken := readRecord("no JSON"); len(broken) != 0 {
		t.Errorf("a broken record is %v", broken)
	}
}

// TestIntent: an intent keeps the time at which its message was due when another replica
// takes it over, and is found by its condition.
func TestIntent(t *testing.T) {
	r := record{}
	due := time.Unix(1767261630, 0)
	r.intend("abc:t:[0].x:slack:ops", 7, due)
	r.intend("abc:t:[0].x:slack:ops", 8, due.Add(time.Hour))
	read := readRecord(r.String())
	if !read.hasIntent("abc:t:[0].x:slack:ops") || !read.intendedAt("abc:t:[0].x:slack:ops").Equal(due) || read.sender("abc:t:[0].x:slack:ops") != 8 {
		t.Errorf("the record is %s", r)
	}
	if got := read.intents("t:[0].x:slack:ops"); len(got) != 1 {
		t.Errorf("the intents are %v", got)
	}
	if got := read.intents("other-t:[0].x:slack:ops"); len(got) != 0 {
		t.Errorf("the intents of another trigger are %v", got)
	}
}

// TestTrim: the oldest entries go first, those that count now stay, and so do intents for
// as long as their messages are tried.
func TestTrim(t *testing.T) {
	r, now := record{}, time.Unix(1767261630, 0)
	for i := range 3 * maxRecord {
		r[fmt.Sprint(i)] = int64(i + 1)
	}
	r.intend("young", 1, now.Add(-time.Hour))
	r.intend("old", 1, now.Add(-2*giveUpAfter))
	r.trim(map[string]bool{"0": true}, now)
	if _, old := r["old"]; len(r) != maxRecord+2 || !r.hasSent("0") || r.hasSent("1") || !r.hasSent("299") || !r.hasIntent("young") || old {
		t.Errorf("%d entries stay: %v", len(r), r)
	}
}

// TestTakeover: the intent of another replica is left to it for a while after the start,
// and the own one of a former process is not.
func TestTakeover(t *testing.T) {
	c := New(Options{Identity: "one"})
	defer c.queue.ShutDown()
	now := time.Now()
	c.started = now.Add(-time.Second)
	a := &application{record: record{}}
	a.record.intend("mine", c.sender, now)
	a.record.intend("theirs", c.sender+1, now)
	if pause, _ := c.pause(a, delivery{key: "mine"}, now); pause != 0 {
		t.Errorf("the own intent waits for %s", pause)
	}
	if pause, _ := c.pause(a, delivery{key: "theirs"}, now); pause != takeoverDelay-time.Second {
		t.Errorf("the intent of another replica waits for %s", pause)
	}
	if pause, _ := c.pause(a, delivery{key: "theirs"}, now.Add(takeoverDelay)); pause != 0 {
		t.Errorf("the intent of another replica waits for %s after that time", pause)
	}
}
