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
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// How often tokens are checked.
const (
	maintainInterval = 5 * time.Minute
	installInterval  = time.Minute // while the installed credential is refused
	recheckAge       = 24 * time.Hour
	checkTimeout     = time.Minute
	// renewBefore is longer than maintainInterval, so that no OAuth token of
	// the runtime expires before it is renewed.
	renewBefore = 15 * time.Minute
	// warnBefore is how long before its expiry a token is reported in the log.
	warnBefore = 14 * 24 * time.Hour
)

// Run stores the credential that the runtime was installed with, checks every
// token once a day and renews the runtime's OAuth token until the context is
// done. The leader runs it.
func (s *Service) Run(ctx context.Context) error {
	for {
		s.Recheck(ctx)
		wait := maintainInterval
		if s.InstalledProblem() != nil {
			wait = installInterval
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-s.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Recheck stores an installed credential, and checks the tokens whose last
// check is a day old.
func (s *Service) Recheck(ctx context.Context) {
	s.adoptInstalled(ctx)
	// The runtime's token first: deliveries depend on it.
	c, err := s.loadRuntime(ctx)
	switch {
	case err != nil:
		s.logProblem(ctx, "cannot read Git credentials of the runtime", err)
	case c != nil:
		s.maintainRuntime(ctx, c)
	}
	// Users' tokens are checked even if that of the runtime is missing.
	records, err := s.all(ctx)
	if err != nil {
		s.logProblem(ctx, "cannot read Git integrations", err)
		return
	}
	for _, r := range records {
		for _, user := range slices.Sorted(maps.Keys(r.users)) {
			// At most one check a day and user, so that providers do not
			// throttle the runtime.
			if s.isStale(r.users[user].Status) {
				s.recheckUser(ctx, r, user)
			}
		}
	}
}

// logProblem logs a warning, unless the context is done.
func (s *Service) logProblem(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.options.Log.Warn(what, observe.KeyError, err)
	}
}

// isStale reports whether a status is a day old.
func (s *Service) isStale(status tokenStatus) bool {
	return s.options.Now().Sub(status.CheckedAt) >= recheckAge
}

// maintainRuntime renews the runtime's OAuth token in time and checks the token
// once a day.
func (s *Service) maintainRuntime(ctx context.Context, c *runtimeCredential) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if s.needsRenewal(c.clearToken) {
		// The refresh token is used once, and the new one is stored before
		// anything else is done.
		next, err := s.renew(ctx, c.kind, c.apiURL, c.clearToken)
		if err == nil {
			c.clearToken = next
			if err = s.storeRuntime(ctx, c); err == nil {
				c, err = s.loadRuntime(ctx)
			}
		}
		if err != nil {
			s.logProblem(ctx, "cannot renew Git token of the runtime", err)
			return
		}
		s.options.Changed()
	}
	if c == nil || !s.isStale(c.status) {
		return
	}
	if err := s.recheckRuntime(ctx, c); err != nil {
		s.logProblem(ctx, "cannot store status of the runtime's Git token", err)
	}
	if c.status.State != string(gitprovider.StateOK) || (!c.status.ExpiresAt.IsZero() && c.status.ExpiresAt.Sub(s.options.Now()) < warnBefore) {
		s.options.Log.Warn("Git token of the runtime needs attention", "state", c.status.State, observe.KeyReason, c.status.Message)
	}
}

// recheckRuntime checks the runtime's token and stores the result, unless
// another token was stored meanwhile: the resourceVersion makes that a
// conflict.
func (s *Service) recheckRuntime(ctx context.Context, c *runtimeCredential) error {
	// An unreachable provider is a status too.
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

// recheckUser checks the token of a user and stores the result.
func (s *Service) recheckUser(ctx context.Context, r *record, user string) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	// The record was read before the checks of other users, which may take
	// long.
	one := r.users[user]
	clear, err := s.openToken(ctx, r, user)
	if err != nil {
		one.Status = tokenStatus{State: string(gitprovider.StateUnknown), Message: err.Error(), CheckedAt: s.options.Now().UTC().Truncate(time.Second)}
	} else {
		if s.needsRenewal(clear) {
			if next, err := s.renewUser(ctx, r, user, clear); err == nil {
				clear = next
				if fresh, err := s.load(ctx, r.name); err == nil {
					one = fresh.users[user]
				}
			}
		}
		one.Status = s.checkUserToken(ctx, r, clear)
	}
	// The user may have registered another token meanwhile, or removed it. The
	// status must belong to the token that was checked.
	fresh, err := s.load(ctx, r.name)
	if err != nil || string(fresh.users[user].Sealed) != string(one.Sealed) {
		return
	}
	if err := s.patchUser(ctx, r, user, &one); err != nil {
		s.logProblem(ctx, "cannot store status of a user's Git token", err)
	}
}

// checkUserToken checks a user's token with its provider.
func (s *Service) checkUserToken(ctx context.Context, r *record, clear clearToken) tokenStatus {
	provider, err := s.provider(ctx, providerChoice{kind: gitprovider.Kind(r.Provider), apiURL: r.APIURL, clear: clear})
	if err != nil {
		return statusOf(gitprovider.TokenReport{}, err, s.options.Now())
	}
	report, err := provider.Check(ctx, gitprovider.UserToken)
	return statusOf(report, err, s.options.Now())
}

// Pending returns the steps that are left after the installation (R63).
func (s *Service) Pending(ctx context.Context) ([]platformv1.CompletionStep, error) {
	var steps []platformv1.CompletionStep
	c, err := s.loadRuntime(ctx)
	if err != nil {
		return nil, err
	}
	// The runtime cannot read private repositories until this step is done.
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
	// The last step is done when the runtime manages itself by an Application.
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

// RuntimeExpiry returns when the Git token of the runtime expires; zero if that
// is unknown or there is no token.
func (s *Service) RuntimeExpiry(ctx context.Context) (time.Time, error) {
	c, err := s.loadRuntime(ctx)
	if err != nil || c == nil {
		return time.Time{}, err
	}
	return c.status.ExpiresAt, nil
}
