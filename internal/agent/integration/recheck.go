package integration

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// How often tokens are looked at.
const (
	lookEvery    = 5 * time.Minute
	checkEvery   = 24 * time.Hour
	checkTimeout = time.Minute
	// renewBefore is more than lookEvery, so that no OAuth token of the runtime
	// ends before it is renewed.
	renewBefore = 15 * time.Minute
	// warnBefore is when the end of a token is worth a line in the log.
	warnBefore = 14 * 24 * time.Hour
)

// Run asks about every token once a day, and renews the runtime's OAuth token,
// until the context is done. One replica should run it.
func (s *Service) Run(ctx context.Context) error {
	for {
		s.Recheck(ctx)
		if err := backoff.Sleep(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// Recheck looks at all tokens once: those that were not asked about for a day are.
func (s *Service) Recheck(ctx context.Context) {
	c, err := s.loadRuntime(ctx)
	switch {
	case err != nil:
		s.complain(ctx, "the Git credentials of the runtime cannot be read", err)
	case c != nil:
		s.lookAtRuntime(ctx, c)
	}
	records, err := s.all(ctx)
	if err != nil {
		s.complain(ctx, "the Git integrations cannot be read", err)
		return
	}
	for _, r := range records {
		for _, user := range slices.Sorted(maps.Keys(r.users)) {
			if s.old(r.users[user].Status) {
				s.recheckUser(ctx, r, user)
			}
		}
	}
}

func (s *Service) complain(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.options.Log.Warn(what, observe.KeyError, err)
	}
}

// old reports whether a status is from yesterday.
func (s *Service) old(status statusEntry) bool {
	return s.options.Now().Sub(status.CheckedAt) >= checkEvery
}

func (s *Service) lookAtRuntime(ctx context.Context, c *runtimeCredential) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if s.due(c.held) {
		next, err := s.renewed(ctx, c.kind, c.apiURL, c.held)
		if err == nil {
			c.held = next
			if err = s.storeRuntime(ctx, c); err == nil {
				c, err = s.loadRuntime(ctx)
			}
		}
		if err != nil {
			s.complain(ctx, "the Git token of the runtime cannot be renewed", err)
			return
		}
		s.options.Changed()
	}
	if c == nil || !s.old(c.status) {
		return
	}
	if err := s.recheckRuntime(ctx, c); err != nil {
		s.complain(ctx, "the state of the runtime's Git token cannot be stored", err)
	}
	if c.status.State != string(gitprovider.StateOK) || (!c.status.ExpiresAt.IsZero() && c.status.ExpiresAt.Sub(s.options.Now()) < warnBefore) {
		s.options.Log.Warn("the Git token of the runtime needs somebody", "state", c.status.State, observe.KeyReason, c.status.Message)
	}
}

// recheckRuntime asks about the token and stores the answer, unless somebody has
// set another one meanwhile.
func (s *Service) recheckRuntime(ctx context.Context, c *runtimeCredential) error {
	// That it cannot be asked about is a state too.
	_ = s.checkRuntime(ctx, c)
	text, err := json.Marshal(c.status)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": c.version}, "data": map[string]any{fieldStatus: text},
	})
	if err != nil {
		return err
	}
	_, err = s.secrets().Patch(ctx, runtimeSecret, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsConflict(err) {
		return storeError("change the Secret", runtimeSecret, err)
	}
	return nil
}

func (s *Service) recheckUser(ctx context.Context, r *record, user string) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	one := r.users[user]
	clear, err := s.openToken(ctx, r, user)
	if err != nil {
		one.Status = statusEntry{State: string(gitprovider.StateUnknown), Message: err.Error(), CheckedAt: s.options.Now().UTC().Truncate(time.Second)}
	} else {
		if s.due(clear) {
			if next, err := s.renewUser(ctx, r, user, clear); err == nil {
				clear = next
				if fresh, err := s.load(ctx, r.name); err == nil {
					one = fresh.users[user]
				}
			}
		}
		one.Status = s.askAbout(ctx, r, clear)
	}
	// The user may have registered another token meanwhile, or none.
	fresh, err := s.load(ctx, r.name)
	if err != nil || string(fresh.users[user].Sealed) != string(one.Sealed) {
		return
	}
	if err := s.patchUser(ctx, r, user, &one); err != nil {
		s.complain(ctx, "the state of a user's Git token cannot be stored", err)
	}
}

func (s *Service) askAbout(ctx context.Context, r *record, clear held) statusEntry {
	provider, err := s.provider(ctx, providerChoice{kind: gitprovider.Kind(r.Provider), apiURL: r.APIURL, clear: clear})
	if err != nil {
		return statusOf(gitprovider.TokenReport{}, err, s.options.Now())
	}
	report, err := provider.Check(ctx, gitprovider.UserToken)
	return statusOf(report, err, s.options.Now())
}

// Pending is the steps that are still to be done after the installation (R63).
func (s *Service) Pending(ctx context.Context) ([]platformv1.CompletionStep, error) {
	var steps []platformv1.CompletionStep
	c, err := s.loadRuntime(ctx)
	if err != nil {
		return nil, err
	}
	if c == nil {
		steps = append(steps, platformv1.CompletionStep_COMPLETION_STEP_GIT_CREDENTIALS)
	}
	records, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(records, func(r *record) bool { return len(r.users) > 0 }) {
		steps = append(steps, platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN)
	}
	found, err := s.options.Cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(s.options.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: sharedrepo.EntityLabel + "=" + sharedrepo.EntityRuntime, Limit: 1})
	if err != nil {
		return nil, storeError("list", "Applications", err)
	}
	if len(found.Items) == 0 {
		steps = append(steps, platformv1.CompletionStep_COMPLETION_STEP_RUNTIME_APPLICATION)
	}
	return steps, nil
}

// RuntimeExpiry is when the Git token of the runtime stops working; zero when
// that is not known or there is none.
func (s *Service) RuntimeExpiry(ctx context.Context) (time.Time, error) {
	c, err := s.loadRuntime(ctx)
	if err != nil || c == nil {
		return time.Time{}, err
	}
	return c.status.ExpiresAt, nil
}
