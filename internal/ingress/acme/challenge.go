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
	"slipway.dev/slipway/internal/ingress/wish"
)

const (
	// boardTries is how often a change of the Secret of challenges is tried when
	// somebody else changes it at the same time.
	boardTries = 10
	// cleanUpTimeout is what the removal of a challenge may take when everything
	// else has to stop.
	cleanUpTimeout = 3 * time.Second
)

// answerer answers challenges by HTTP: it writes what all replicas then serve.
type answerer struct {
	manager    *Manager
	entryPoint string
}

// Present writes the answer to a challenge.
func (a *answerer) Present(ctx context.Context, challenge acme.Challenge) error {
	entry := wish.Challenge{
		Host: challenge.Identifier.Value, EntryPoint: a.entryPoint, Answer: challenge.KeyAuthorization, Created: time.Now().UTC(),
	}
	return a.manager.post(ctx, func(entries map[string][]byte) { entries[challenge.Token] = entry.Encode() })
}

// Wait waits until the answer is served: here, which is known, and by the other
// replicas, which had time to learn of it.
func (a *answerer) Wait(ctx context.Context, challenge acme.Challenge) error {
	pace := a.manager.pace
	limited, cancel := context.WithTimeout(ctx, pace.served)
	defer cancel()
	for {
		a.manager.mu.Lock()
		since, answered := a.manager.answered[challenge.Token]
		changed := a.manager.changed
		a.manager.mu.Unlock()
		if answered {
			if backoff.Sleep(ctx, time.Until(since.Add(pace.grace))) != nil {
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
			return fmt.Errorf("the edge does not serve the answer to a challenge after %v: look whether it reads the Secret %s", pace.served, wish.ChallengesSecret)
		}
	}
}

// CleanUp takes the answer away, also when everything has to stop.
func (a *answerer) CleanUp(ctx context.Context, challenge acme.Challenge) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	return a.manager.post(ctx, func(entries map[string][]byte) { delete(entries, challenge.Token) })
}

// post changes the Secret of challenges. A change that changes nothing is not
// written.
func (m *Manager) post(ctx context.Context, change func(entries map[string][]byte)) error {
	var err error
	for range boardTries {
		if err = m.tryPost(ctx, change); err == nil || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("the Secret %s/%s of challenges: %w", m.cluster.Namespace, wish.ChallengesSecret, err)
	}
	return nil
}

func (m *Manager) tryPost(ctx context.Context, change func(entries map[string][]byte)) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client := m.cluster.Client.CoreV1().Secrets(m.cluster.Namespace)
	found, err := client.Get(ctx, wish.ChallengesSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: wish.ChallengesSecret, Labels: map[string]string{
				wish.ManagedLabel: wish.ManagedValue, wish.PurposeLabel: wish.PurposeChallenges,
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
	if found.Labels[wish.PurposeLabel] != wish.PurposeChallenges {
		return errNotOurs
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
