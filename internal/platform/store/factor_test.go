package store_test

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

func recovery(names ...string) (hashes [][]byte) {
	for _, name := range names {
		hashes = append(hashes, []byte(name))
	}
	return hashes
}

// The first factor ends the sessions and brings the recovery codes, and the last
// one takes them along.
func TestFactors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		ada, bob := w.user(account, "ada@example.org", store.RoleOperator), w.user(account, "bob@example.org", store.RoleOperator)
		for _, user := range []store.User{ada, bob} {
			check(t, w.session(store.Session{Hash: []byte(user.ID), UserID: user.ID, AccountID: account.ID}))
		}
		state := func(want string) {
			t.Helper()
			var ids []string
			for _, factor := range must(w.Factors(ctx, ada.ID))(t) {
				ids = append(ids, factor.ID)
			}
			_, err := w.Session(ctx, []byte(ada.ID))
			got := fmt.Sprintf("%v, codes %d, session %v, flag %v", ids, must(w.CountRecoveryCodes(ctx, ada.ID))(t), err == nil, must(w.User(ctx, account.ID, ada.ID))(t).SecondFactor)
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		add := func(id, kind string, wantFirst bool) store.Factor {
			t.Helper()
			factor := store.Factor{ID: id, UserID: ada.ID, Kind: kind, Name: "My " + id, Secret: []byte("sealed"), LastProof: 7}
			if first := must(w.AddFactor(ctx, factor, recovery("one", "two")))(t); first != wantFirst {
				t.Errorf("%s is the first: %v", id, first)
			}
			factor.CreatedAt = w.clock.advance(0)
			factor.LastUsedAt = factor.CreatedAt
			w.clock.advance(time.Second)
			return factor
		}
		state("[], codes 0, session true, flag false")
		phone := add("phone", store.FactorTOTP, true)
		if got := must(w.Factors(ctx, ada.ID))(t); !reflect.DeepEqual(got, []store.Factor{phone}) {
			t.Errorf("got %+v, want %+v", got, phone)
		}
		state("[phone], codes 2, session false, flag true")
		check(t, w.session(store.Session{Hash: []byte(ada.ID), UserID: ada.ID, AccountID: account.ID}))
		check(t, w.UseRecoveryCode(ctx, ada.ID, []byte("one")))
		wantError(t, w.UseRecoveryCode(ctx, ada.ID, []byte("one")), store.ErrNotFound)
		wantError(t, w.UseRecoveryCode(ctx, bob.ID, []byte("two")), store.ErrNotFound)
		add("key", store.FactorPasskey, false)
		add("tablet", store.FactorTOTP, false)
		state("[key tablet], codes 1, session true, flag true")
		wantError(t, w.DeleteFactor(ctx, bob.ID, "key", false), store.ErrNotFound)
		check(t, w.DeleteFactor(ctx, ada.ID, "key", true))
		wantError(t, w.DeleteFactor(ctx, ada.ID, "tablet", true), store.ErrLastFactor)
		state("[tablet], codes 1, session true, flag true")
		check(t, w.SetRecoveryCodes(ctx, ada.ID, recovery("three", "four", "five")))
		state("[tablet], codes 3, session true, flag true")
		check(t, w.DeleteFactor(ctx, ada.ID, "tablet", false))
		state("[], codes 0, session true, flag false")

		add("phone", store.FactorTOTP, true)
		wantError(t, w.ResetFactors(ctx, w.account("Other").ID, ada.ID), store.ErrNotFound)
		check(t, w.ResetFactors(ctx, account.ID, ada.ID))
		state("[], codes 0, session false, flag false")
		must(w.Session(ctx, []byte(bob.ID)))(t)

		for n := range store.MaxFactors {
			add(fmt.Sprint("key", n), store.FactorPasskey, n == 0)
		}
		_, err := w.AddFactor(ctx, store.Factor{ID: "more", UserID: ada.ID, Kind: store.FactorPasskey, Secret: []byte("sealed")}, nil)
		wantInvalid(t, err)
		check(t, w.DeleteUser(ctx, account.ID, ada.ID))
		if factors := must(w.Factors(ctx, ada.ID))(t); len(factors) != 0 {
			t.Errorf("%d factors of a deleted user", len(factors))
		}
	})
}

// A proof is accepted once, also by two replicas at the same time, and none that
// is older.
func TestUseFactor(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		user := w.user(w.account("Harbour"), "ada@example.org", store.RoleOperator)
		must(w.AddFactor(ctx, store.Factor{ID: "phone", UserID: user.ID, Kind: store.FactorTOTP, Secret: []byte("old"), LastProof: 7}, nil))(t)
		used := w.clock.advance(time.Minute)
		for proof, want := range map[int64]error{6: store.ErrNotFound, 7: store.ErrNotFound} {
			wantError(t, w.UseFactor(ctx, "phone", proof, []byte("new")), want)
		}
		var accepted atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if w.UseFactor(ctx, "phone", 8, []byte("new")) == nil {
					accepted.Add(1)
				}
			})
		}
		all.Wait()
		got := must(w.Factors(ctx, user.ID))(t)[0]
		if accepted.Load() != 1 || got.LastProof != 8 || string(got.Secret) != "new" || !got.LastUsedAt.Equal(used) {
			t.Errorf("accepted %d times: %+v", accepted.Load(), got)
		}
	})
}
