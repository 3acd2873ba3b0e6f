package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// TestOnline: a runtime without a heartbeat, or with an old one, is offline.
func TestOnline(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for age, want := range map[time.Duration]bool{0: true, store.OfflineAfter - 1: true, store.OfflineAfter: false} {
		if got := (store.Runtime{HeartbeatAt: now.Add(-age)}).Online(now); got != want {
			t.Errorf("online %t after %s", got, age)
		}
	}
	if (store.Runtime{}).Online(time.Time{}) {
		t.Error("a runtime without a heartbeat is online")
	}
}

func TestRuntimes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account, other := w.account("Harbour"), w.account("Other")
		now := w.clock.advance(time.Hour)
		runtime := must(w.CreateRuntime(ctx, store.Runtime{
			AccountID: account.ID, Name: "prod", Namespace: "slipway", Cluster: "eu-1", ClusterUID: "uid", Version: "1.2.3", ChartVersion: "0.9.0",
			KubernetesVersion: "v1.36.0", AccessMode: 4, AccessURL: "https://prod.example.org", IngressClass: "slipway", ConfigurationRuntime: true,
			Uninstalling: true, CleanSharedRepository: true, HeartbeatAt: now, State: []byte{0, 255, 1},
		}))(t)
		if got := must(w.RuntimeByName(ctx, account.ID, "prod"))(t); !reflect.DeepEqual(got, runtime) {
			t.Errorf("got %+v, want %+v", got, runtime)
		}
		_, err := w.RuntimeByName(ctx, other.ID, "prod")
		wantError(t, err, store.ErrNotFound)
		_, err = w.CreateRuntime(ctx, store.Runtime{AccountID: account.ID, Name: "prod"})
		wantConflict(t, err)
		w.runtime(other, "prod") // names are the account's own

		boom := errors.New("boom")
		_, err = w.UpdateRuntime(ctx, runtime.ID, func(r *store.Runtime) error { r.Version = "9"; return boom })
		wantError(t, err, boom)
		updated := must(w.UpdateRuntime(ctx, runtime.ID, func(r *store.Runtime) error {
			r.AccountID, r.Version, r.State = other.ID, "1.3.0", nil
			return nil
		}))(t)
		if updated.AccountID != account.ID || updated.Version != "1.3.0" {
			t.Errorf("updated: %+v", updated)
		}
		if got := must(w.RuntimeByID(ctx, runtime.ID))(t); !reflect.DeepEqual(got, updated) {
			t.Errorf("got %+v, want %+v", got, updated)
		}
		_, err = w.UpdateRuntime(ctx, runtime.ID, func(r *store.Runtime) error {
			r.State = make([]byte, store.MaxRuntimeState+1)
			return nil
		})
		wantInvalid(t, err)

		wantConflict(t, w.DeleteRuntime(ctx, account.ID, runtime.ID, now.Add(-time.Second)))
		wantError(t, w.DeleteRuntime(ctx, other.ID, runtime.ID, time.Time{}), store.ErrNotFound)
		check(t, w.DeleteRuntime(ctx, account.ID, runtime.ID, now))
		_, err = w.RuntimeByID(ctx, runtime.ID)
		wantError(t, err, store.ErrNotFound)
	})
}

// R3: a namespace of a cluster has one runtime of an account, whichever way it gets
// there. Runtimes that do not report their place do not collide.
func TestPlaceOfARuntime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		at := func(account store.Account, name, cluster, namespace string) (store.Runtime, error) {
			return w.CreateRuntime(ctx, store.Runtime{AccountID: account.ID, Name: name, ClusterUID: cluster, Namespace: namespace})
		}
		must(at(account, "one", "east", "slipway"))(t)
		_, err := at(account, "two", "east", "slipway")
		wantConflict(t, err)
		two := must(at(account, "two", "east", "elsewhere"))(t)
		must(at(account, "three", "west", "slipway"))(t)
		must(at(w.account("Other"), "one", "east", "slipway"))(t)
		_, err = w.UpdateRuntime(ctx, two.ID, func(r *store.Runtime) error { r.Namespace = "slipway"; return nil })
		wantConflict(t, err)
		must(at(account, "four", "", ""))(t)
		must(at(account, "five", "", ""))(t)
	})
}

// UpdateGitSettings changes what is there, with nothing in between.
func TestUpdateGitSettings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		set := func(repository string) error {
			_, err := w.UpdateGitSettings(ctx, account.ID, func(s *store.GitSettings) error { s.SharedRepository += repository; return nil })
			return err
		}
		check(t, set(""))
		_, err := w.GitSettings(ctx, account.ID)
		wantError(t, err, store.ErrNotFound) // nothing was changed, so nothing is stored
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { check(t, set("x")) })
		}
		all.Wait()
		boom := errors.New("boom")
		_, err = w.UpdateGitSettings(ctx, account.ID, func(s *store.GitSettings) error { s.SharedRepository = "y"; return boom })
		wantError(t, err, boom)
		if got := must(w.GitSettings(ctx, account.ID))(t); got.SharedRepository != "xxxxxxxx" || got.AccountID != account.ID {
			t.Errorf("got %+v", got)
		}
	})
}

// An account has one configuration runtime at most, whichever way it is set.
func TestConfigurationRuntime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		other := must(w.CreateRuntime(ctx, store.Runtime{AccountID: w.account("Other").ID, Name: "b", ConfigurationRuntime: true}))(t)
		a, b := w.runtime(account, "a"), w.runtime(account, "b")
		want := func(name string) {
			t.Helper()
			runtimes, _, err := w.Runtimes(ctx, account.ID, store.Page{})
			check(t, err)
			var flagged []string
			for _, r := range runtimes {
				if r.ConfigurationRuntime {
					flagged = append(flagged, r.Name)
				}
			}
			if fmt.Sprint(flagged) != "["+name+"]" {
				t.Errorf("configuration runtimes %v, want %s", flagged, name)
			}
		}
		want("")
		check(t, w.SetConfigurationRuntime(ctx, account.ID, a.ID))
		want("a")
		_, err := w.UpdateRuntime(ctx, b.ID, func(r *store.Runtime) error { r.ConfigurationRuntime = true; return nil })
		check(t, err)
		want("b")
		must(w.CreateRuntime(ctx, store.Runtime{AccountID: account.ID, Name: "c", ConfigurationRuntime: true}))(t)
		want("c")
		wantError(t, w.SetConfigurationRuntime(ctx, account.ID, other.ID), store.ErrNotFound)
		want("c")
		check(t, w.SetConfigurationRuntime(ctx, account.ID, ""))
		want("")
		if !must(w.RuntimeByID(ctx, other.ID))(t).ConfigurationRuntime {
			t.Error("another account lost its configuration runtime")
		}
	})
}

// Many writers at once all succeed, and none overwrites another: each is a
// transaction as if alone.
func TestConcurrentUpdates(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		var ids []string
		for i := range 20 {
			ids = append(ids, w.runtime(account, fmt.Sprintf("r%02d", i)).ID)
		}
		const rounds = 5
		var group sync.WaitGroup
		for range rounds {
			for _, id := range append(slices.Clone(ids), ids[0], ids[0]) {
				group.Go(func() {
					_, err := w.UpdateRuntime(ctx, id, func(r *store.Runtime) error { r.AccessMode++; return nil })
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		group.Wait()
		for i, id := range ids {
			want := int32(rounds)
			if i == 0 {
				want = 3 * rounds
			}
			if got := must(w.RuntimeByID(ctx, id))(t).AccessMode; got != want {
				t.Errorf("%s was changed %d times, want %d", id, got, want)
			}
		}
	})
}

// Refresh tokens rotate. A lost response is tolerated within the grace period; a
// token that was replaced before ends the runtime's credentials; a guess ends
// nothing.
func TestCredentialRotation(t *testing.T) {
	t.Parallel()
	const grace = time.Minute
	type step struct {
		after     time.Duration
		present   string
		want      error
		refresh   string // afterwards
		revoked   bool
		increment int64 // of the generation
	}
	for name, steps := range map[string][]step{
		"in order":                       {{present: "t0", refresh: "n0"}, {present: "n0", refresh: "n1"}, {present: "n1", refresh: "n2"}},
		"an answer is lost":              {{present: "t0", refresh: "n0"}, {after: grace, present: "t0", refresh: "n1"}, {present: "n1", refresh: "n2"}},
		"two answers are lost":           {{present: "t0", refresh: "n0"}, {present: "t0", refresh: "n1"}, {present: "t0", refresh: "n2"}},
		"retrying does not extend grace": {{present: "t0", refresh: "n0"}, {after: grace, present: "t0", refresh: "n1"}, {after: time.Second, present: "t0", want: store.ErrReused, revoked: true, increment: 1}},
		"the previous after the grace":   {{present: "t0", refresh: "n0"}, {after: grace + time.Second, present: "t0", want: store.ErrReused, revoked: true, increment: 1}},
		"an old one":                     {{present: "t0", refresh: "n0"}, {present: "n0", refresh: "n1"}, {present: "n1", refresh: "n2"}, {present: "t0", want: store.ErrReused, revoked: true, increment: 1}},
		"one of a lost answer":           {{present: "t0", refresh: "n0"}, {present: "t0", refresh: "n1"}, {present: "n0", want: store.ErrReused, revoked: true, increment: 1}},
		"a guess":                        {{present: "guess", want: store.ErrNotFound, refresh: "t0"}, {present: "t0", refresh: "n1"}},
		"after a revocation":             {{present: "t0", refresh: "n0"}, {after: 2 * grace, present: "t0", want: store.ErrReused, revoked: true, increment: 1}, {present: "n0", want: store.ErrRevoked, revoked: true, increment: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, w *world) {
				ctx := t.Context()
				runtime := w.runtime(w.account("Harbour"), "prod")
				check(t, w.PutCredential(ctx, store.RuntimeCredential{RuntimeID: runtime.ID, Generation: 7, RefreshHash: []byte("t0")}))
				for i, step := range steps {
					now := w.clock.advance(step.after)
					_, err := w.RotateCredential(ctx, store.Rotation{RuntimeID: runtime.ID, Presented: []byte(step.present),
						NewHash: fmt.Append(nil, "n", i), Now: now, Grace: grace})
					if !errors.Is(err, step.want) {
						t.Fatalf("step %d: got %v, want %v", i, err, step.want)
					}
					got := must(w.Credential(ctx, runtime.ID))(t)
					if string(got.RefreshHash) != step.refresh || got.Revoked != step.revoked || got.Generation != 7+step.increment {
						t.Fatalf("step %d: %+v, want %+v", i, got, step)
					}
				}
			})
		})
	}
}

// A revoked runtime can be given new credentials, of a later generation only.
func TestCredentialReplacement(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		runtime := w.runtime(w.account("Harbour"), "prod")
		wantError(t, w.PutCredential(ctx, store.RuntimeCredential{RuntimeID: "nobody"}), store.ErrNotFound)
		wantError(t, w.RevokeCredential(ctx, runtime.ID), store.ErrNotFound)
		check(t, w.PutCredential(ctx, store.RuntimeCredential{RuntimeID: runtime.ID, Generation: 3, RefreshHash: []byte("a"), RotatedAt: w.clock.advance(0)}))
		check(t, w.RevokeCredential(ctx, runtime.ID))
		revoked := must(w.Credential(ctx, runtime.ID))(t)
		if !revoked.Revoked || revoked.Generation != 4 || revoked.RefreshHash != nil {
			t.Errorf("revoked: %+v", revoked)
		}
		wantConflict(t, w.PutCredential(ctx, store.RuntimeCredential{RuntimeID: runtime.ID, Generation: 3, RefreshHash: []byte("b")}))
		want := store.RuntimeCredential{RuntimeID: runtime.ID, Generation: 5, RefreshHash: []byte("b"), PreviousHash: []byte("a"), RotatedAt: w.clock.advance(0)}
		check(t, w.PutCredential(ctx, want))
		if got := must(w.Credential(ctx, runtime.ID))(t); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		check(t, w.DeleteRuntime(ctx, runtime.AccountID, runtime.ID, time.Time{}))
		_, err := w.Credential(ctx, runtime.ID)
		wantError(t, err, store.ErrNotFound)
	})
}

// Of parallel rotations with the same token one wins, the others are the grace's.
func TestConcurrentRotation(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		runtime := w.runtime(w.account("Harbour"), "prod")
		check(t, w.PutCredential(ctx, store.RuntimeCredential{RuntimeID: runtime.ID, Generation: 1, RefreshHash: []byte("t0")}))
		now := w.clock.advance(0)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				_, err := w.RotateCredential(ctx, store.Rotation{RuntimeID: runtime.ID, Presented: []byte("t0"), NewHash: fmt.Append(nil, "n", i), Now: now, Grace: time.Minute})
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		got := must(w.Credential(ctx, runtime.ID))(t)
		if string(got.PreviousHash) != "t0" || len(got.RefreshHash) != 2 || got.Generation != 1 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestGitSettingsAndSigningKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		_, err := w.GitSettings(ctx, account.ID)
		wantError(t, err, store.ErrNotFound)
		settings := store.GitSettings{AccountID: account.ID, Provider: "github", APIURL: "https://api.github.com", SharedRepository: "https://github.com/o/r.git"}
		w.putGitSettings(settings)
		settings.Validated = true
		w.putGitSettings(settings)
		if got := must(w.GitSettings(ctx, account.ID))(t); got != settings {
			t.Errorf("got %+v, want %+v", got, settings)
		}
		check(t, w.DeleteGitSettings(ctx, account.ID))
		_, err = w.GitSettings(ctx, account.ID)
		wantError(t, err, store.ErrNotFound)

		var keys []store.SigningKey
		for i := range 3 {
			at := w.clock.advance(time.Hour)
			key := store.SigningKey{ID: fmt.Sprint("key", i), Private: []byte{0, byte(i)}, CreatedAt: at, NotAfter: at.Add(time.Hour)}
			check(t, w.AddSigningKey(ctx, key))
			keys = append(keys, key)
		}
		wantConflict(t, w.AddSigningKey(ctx, keys[0]))
		check(t, w.DeleteSigningKey(ctx, keys[1].ID))
		if got := must(w.SigningKeys(ctx))(t); !reflect.DeepEqual(got, []store.SigningKey{keys[2], keys[0]}) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestReplicasAndConnections(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		runtime := w.runtime(w.account("Harbour"), "prod")
		old := w.clock.advance(0)
		now := w.clock.advance(time.Minute)
		a := store.Replica{ID: "a", PeerURL: "https://a:1", TunnelURL: "wss://a", SeenAt: now}
		b := store.Replica{ID: "b", PeerURL: "https://b:1", TunnelURL: "wss://b", SeenAt: old}
		check(t, w.PutReplica(ctx, a))
		check(t, w.PutReplica(ctx, b))
		if got := must(w.Replicas(ctx, now))(t); !reflect.DeepEqual(got, []store.Replica{a}) {
			t.Errorf("got %+v", got)
		}
		b.SeenAt = now
		check(t, w.PutReplica(ctx, b))
		if got := must(w.Replicas(ctx, now))(t); !reflect.DeepEqual(got, []store.Replica{a, b}) {
			t.Errorf("got %+v", got)
		}
		onA := store.Connection{RuntimeID: runtime.ID, ReplicaID: "a", Count: 2, SeenAt: old}
		onB := store.Connection{RuntimeID: runtime.ID, ReplicaID: "b", Count: 1, SeenAt: now}
		check(t, w.PutConnection(ctx, onA))
		check(t, w.PutConnection(ctx, onB))
		wantError(t, w.PutConnection(ctx, store.Connection{RuntimeID: "nobody", ReplicaID: "a", Count: 1}), store.ErrNotFound)
		want := func(since time.Time, want ...store.Connection) {
			t.Helper()
			if got := must(w.Connections(ctx, runtime.ID, since))(t); !slices.Equal(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		want(old, onB, onA)
		want(now, onB)
		onB.Count = 0
		check(t, w.PutConnection(ctx, onB))
		want(old, onA)
		check(t, w.DeleteConnections(ctx, "a"))
		want(old)
		check(t, w.PutConnection(ctx, onA))
		check(t, w.DeleteReplica(ctx, "a"))
		want(old)
	})
}
