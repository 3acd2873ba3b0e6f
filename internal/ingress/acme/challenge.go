package acme

import (
	"context"
	"fmt"
	"time"

	"github.com/mholt/acmez/v3/acme"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/certrequest"
)

const (
	// challengeTries bounds the attempts to update the Secret of challenges while
	// another writer updates it too.
	challengeTries = 10
	// cleanUpTimeout bounds the removal of a challenge during shutdown.
	cleanUpTimeout = 3 * time.Second
)

// challengeBackoff is the wait before another attempt. All of them take less
// than cleanUpTimeout, and jitter keeps two writers from meeting again.
var challengeBackoff = backoff.Policy{First: 20 * time.Millisecond, Longest: 300 * time.Millisecond, JitterDown: 0.5}

// challengeSolver solves HTTP-01 challenges. It writes the key authorization to a
// Secret that all replicas serve from, because the authority may reach any of
// them.
type challengeSolver struct {
	manager    *Manager
	entryPoint string
}

// Present publishes the key authorization of a challenge.
func (a *challengeSolver) Present(ctx context.Context, challenge acme.Challenge) error {
	entry := certrequest.Challenge{
		Host: challenge.Identifier.Value, EntryPoint: a.entryPoint, KeyAuthorization: challenge.KeyAuthorization, Created: time.Now().UTC(),
	}
	return a.manager.updateChallenges(ctx, func(entries map[string][]byte) { entries[challenge.Token] = entry.Encode() })
}

// Wait blocks until the challenge is served. This replica reports that itself;
// the others get some time more, in which their watches deliver the Secret.
func (a *challengeSolver) Wait(ctx context.Context, challenge acme.Challenge) error {
	pace := a.manager.timing
	limited, cancel := context.WithTimeout(ctx, pace.serveTimeout)
	defer cancel()
	for {
		a.manager.mu.Lock()
		since, found := a.manager.servedSince[challenge.Token]
		changed := a.manager.changed
		a.manager.mu.Unlock()
		if found {
			if backoff.Sleep(ctx, time.Until(since.Add(pace.propagation))) != nil {
				return ctx.Err()
			}
			return nil
		}
		select {
		case <-changed:
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("the edge does not serve the challenge after %v: check whether it may read the Secret %s", pace.serveTimeout, certrequest.ChallengesSecret)
		}
	}
}

// CleanUp removes a challenge. It runs to its end even when the context of the
// order is done, so that a shutdown leaves nothing behind.
func (a *challengeSolver) CleanUp(ctx context.Context, challenge acme.Challenge) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	return a.manager.updateChallenges(ctx, func(entries map[string][]byte) { delete(entries, challenge.Token) })
}

// updateChallenges changes the Secret of challenges, with backoff on conflicts.
// A change without an effect is not written. change may run several times, each
// time on a fresh copy.
func (m *Manager) updateChallenges(ctx context.Context, change func(entries map[string][]byte)) error {
	err := m.tryUpdateChallenges(ctx, change)
	for failures := 1; failures < challengeTries && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)); failures++ {
		if backoff.Sleep(ctx, challengeBackoff.Delay(failures)) != nil {
			break
		}
		err = m.tryUpdateChallenges(ctx, change)
	}
	if err != nil {
		return fmt.Errorf("the Secret %s/%s of challenges: %w", m.cluster.Namespace, certrequest.ChallengesSecret, err)
	}
	return nil
}

// tryUpdateChallenges makes one attempt. The resource version of the read Secret
// turns a concurrent write into a conflict.
func (m *Manager) tryUpdateChallenges(ctx context.Context, change func(entries map[string][]byte)) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client := m.cluster.Client.CoreV1().Secrets(m.cluster.Namespace)
	found, err := m.challengesSecret(ctx)
	if apierrors.IsNotFound(err) {
		made := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: certrequest.ChallengesSecret, Labels: map[string]string{
				certrequest.ManagedLabel: certrequest.ManagedValue, certrequest.PurposeLabel: certrequest.PurposeChallenges,
			}},
			Data: map[string][]byte{},
		}
		if change(made.Data); len(made.Data) == 0 {
			return nil
		}
		_, err = client.Create(ctx, made, metav1.CreateOptions{FieldManager: fieldManager})
		return err
	}
	if err != nil {
		return err
	}
	next := found.DeepCopy()
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	change(next.Data)
	if sameEntries(found.Data, next.Data) {
		return nil
	}
	_, err = client.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// challengesSecret reads the Secret of challenges.
func (m *Manager) challengesSecret(ctx context.Context) (*corev1.Secret, error) {
	found, err := m.cluster.Client.CoreV1().Secrets(m.cluster.Namespace).Get(ctx, certrequest.ChallengesSecret, metav1.GetOptions{})
	if err == nil && found.Labels[certrequest.PurposeLabel] != certrequest.PurposeChallenges {
		return nil, errNotOurs
	}
	return found, err
}

// sameEntries reports whether two sets of challenges are equal.
func sameEntries(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for token, value := range b {
		if before, there := a[token]; !there || string(before) != string(value) {
			return false
		}
	}
	return true
}
