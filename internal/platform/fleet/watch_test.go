package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// watchedRuntimes reads a stream into words: +name, -name, name? for one that is
// offline, and synced.
func watchedRuntimes(t *testing.T, w *world) (next func() string) {
	t.Helper()
	stream := must.Get(w.admin.runtimes.WatchRuntimes(within(t), connect.NewRequest(&platformv1.WatchRuntimesRequest{})))(t)
	t.Cleanup(func() { _ = stream.Close() })
	return func() string {
		if !stream.Receive() {
			return "over: " + stream.Err().Error()
		}
		switch message := stream.Msg(); {
		case message.GetSynced():
			return "synced"
		case message.GetDeleted() != "":
			return "-" + message.GetDeleted()
		case message.GetRuntime().GetOnline():
			return "+" + message.GetRuntime().GetName()
		case message.GetRuntime() != nil:
			return message.GetRuntime().GetName() + "?"
		}
		return "alive"
	}
}

// TestWatchRuntimes: everything first, then each that changes, also by time alone.
func TestWatchRuntimes(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		next := watchedRuntimes(t, w)
		expect := func(step, want string) {
			t.Helper()
			if got := next(); got != want {
				t.Fatalf("%s: got %q, want %q", step, got, want)
			}
		}
		expect("first", "prod?")
		expect("then", "synced")
		heartbeat(t, agent, beat())
		expect("a heartbeat", "+prod")
		heartbeat(t, agent, &platformv1.HeartbeatRequest{Unchanged: true}) // says nothing new
		w.join(t, "test", "west")
		expect("another", "test?")
		w.clock.pass(time.Minute)
		expect("silence", "prod?")
		must.Get(w.admin.runtimes.DeleteRuntime(t.Context(), connect.NewRequest(&platformv1.DeleteRuntimeRequest{Name: "test"})))(t)
		expect("deleted", "-test")
		close(w.stop)
		expect("stopping", "over: unavailable: this replica of the platform is shutting down: reconnect")
	})
}

// TestWatchApplications: reports are seen as they are stored, and what may be old
// is marked when its runtime goes silent.
func TestWatchApplications(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		other, _ := w.join(t, "test", "west")
		heartbeat(t, agent, beat())
		heartbeat(t, other, beat())
		report(t, agent, "s", begin(1), application(2, "shop"), end(3))
		stream := must.Get(w.admin.applications.WatchApplications(within(t), connect.NewRequest(&platformv1.WatchApplicationsRequest{Runtime: "prod"})))(t)
		defer stream.Close()
		expect := func(step string, want ...string) {
			t.Helper()
			var got []string
			for range want {
				if !stream.Receive() {
					t.Fatalf("%s: %v", step, stream.Err())
				}
				got = append(got, applicationWord(stream.Msg()))
			}
			if !sameWords(got, want) {
				t.Fatalf("%s: got %q, want %q", step, got, want)
			}
		}
		expect("first", "prod/shop:", "synced")
		report(t, other, "s", begin(1), application(2, "hidden"), end(3))
		report(t, agent, "s", application(4, "shop", "Degraded"))
		expect("changed", "prod/shop:Degraded")
		report(t, agent, "s", application(5, "shop", "Degraded"), application(6, "web"))
		expect("new; the other has only a new time", "prod/shop:Degraded", "prod/web:")
		report(t, agent, "s", deleted(7, "web"))
		expect("deleted", "-prod/web")
		w.clock.pass(time.Minute)
		expect("silence", "prod/shop:Degraded?")
	})
}

// TestWatchManyApplications: clients that request batches get all in few messages,
// in order and bounded, and then what changes and what goes.
func TestWatchManyApplications(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		heartbeat(t, agent, beat())
		const count = 400
		events := []*platformv1.ReportEvent{begin(1)}
		for i := range count {
			one := application(int64(i+2), fmt.Sprintf("app-%03d", i))
			one.GetApplication().CommitMessage = strings.Repeat("why ", 256) // a KiB
			events = append(events, one)
		}
		report(t, agent, "s", append(events, end(count+2))...)
		stream := must.Get(w.admin.applications.WatchApplications(within(t), connect.NewRequest(&platformv1.WatchApplicationsRequest{Many: true})))(t)
		defer stream.Close()
		next := func() *platformv1.WatchApplicationsResponse {
			t.Helper()
			if !stream.Receive() {
				t.Fatal(stream.Err())
			}
			return stream.Msg()
		}
		messages, names := 0, []string{}
		for message := next(); !message.GetSynced(); message = next() {
			messages++
			if size := proto.Size(message); size > 192<<10 || message.GetApplication() != nil {
				t.Fatalf("a message has %d bytes, and alone %v", size, message.GetApplication())
			}
			for _, one := range message.GetApplications() {
				names = append(names, one.GetName())
			}
			if messages == 1 && len(names) != 100 {
				t.Errorf("the first message has %d applications: a screenful is to come before the rest", len(names))
			}
		}
		if len(names) != count || !slices.IsSorted(names) || messages < 2 || messages > 10 {
			t.Fatalf("%d applications came in %d messages, sorted %v", len(names), messages, slices.IsSorted(names))
		}
		report(t, agent, "s", application(count+3, "app-007", "Degraded"), deleted(count+4, "app-008"))
		// Reports are seen together or one after the other.
		got := map[string]bool{}
		for len(got) < 2 {
			message := next()
			for _, one := range message.GetApplications() {
				got[one.GetName()+":"+one.GetHealth()] = true
			}
			if gone := message.GetDeleted(); gone != nil {
				got["-"+gone.GetName()] = true
			}
		}
		if !got["app-007:Degraded"] || !got["-app-008"] {
			t.Fatalf("the change and the end came as %v", got)
		}
	})
}

func applicationWord(message *platformv1.WatchApplicationsResponse) string {
	switch {
	case message.GetSynced():
		return "synced"
	case message.GetDeleted() != nil:
		return "-" + message.GetDeleted().GetRuntime() + "/" + message.GetDeleted().GetName()
	case message.GetApplication() == nil:
		return "alive"
	}
	application := message.GetApplication()
	word := application.GetRuntime() + "/" + application.GetName() + ":" + application.GetHealth()
	if application.GetStale() {
		word += "?"
	}
	return word
}

// TestWatchesAreBounded: an account has so many streams and no more.
func TestWatchesAreBounded(t *testing.T) {
	w := newWorld(t, "sqlite://"+t.TempDir()+"/p.db")
	refused := ""
	for range 501 {
		next := watchedRuntimes(t, w)
		if word := next(); strings.HasPrefix(word, "over") {
			refused = word
		}
	}
	if !strings.Contains(refused, "too many watches") {
		t.Errorf("the 501st was not refused: %q", refused)
	}
}
