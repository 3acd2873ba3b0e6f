// Package apprights decides what callers of the platform may do with
// Applications: by the role of the user, by the platform's policy, and by the
// policy that the runtime of the Application reported. The runtime decides
// again, from the same parts.
//
// It promises that a runtime's policy counts for its own Applications only, and
// that changing the Applications of a runtime itself takes the role admin. It
// refuses everything but that role on a runtime whose policy could not be
// reported.
//
// See decision 0034 in docs/decisions: rights are Argo CD's, on top of roles.
package apprights

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// maxCached bounds the cache of policies; at the limit it is emptied.
	maxCached = 10_000
	// maxClaims bounds what a request token has of a policy: proxies in front of
	// a runtime accept headers of 8 KiB.
	maxClaims = 4 << 10
)

// Policies has the policies of all runtimes. It is safe for concurrent use. The
// nil Policies has no rules.
type Policies struct {
	platform *rights.Policy

	mu    sync.Mutex
	known map[string]*Policy // by ID of the runtime
}

// New returns Policies with the platform's own policy, which may be nil.
func New(platform *rights.Policy) *Policies {
	return &Policies{platform: platform, known: map[string]*Policy{}}
}

// Policy decides about the Applications of one runtime. As long as the policies
// do not change, Of returns the same one.
type Policy struct {
	platform, merged *rights.Policy
	// namespace is the control namespace of the runtime.
	namespace string
	// closed is set if the runtime's own policy is not known.
	closed bool
	// state is what it was made of. The lock of Policies guards it; the other
	// fields never change.
	state []byte
}

// Of returns the policy for a runtime, from the state of its last heartbeat.
func (p *Policies) Of(runtime store.Runtime) *Policy {
	if p == nil {
		return &Policy{namespace: runtime.Namespace}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// Most heartbeats change nothing, and comparing is cheaper than parsing.
	if found := p.known[runtime.ID]; found != nil && found.namespace == runtime.Namespace && bytes.Equal(found.state, runtime.State) {
		return found
	}
	reported := reportedRights(runtime.State)
	next := &Policy{
		platform: p.platform, merged: rights.Merge(p.platform, parse(reported)),
		namespace: runtime.Namespace, closed: reported.GetTooLarge(), state: runtime.State,
	}
	// A heartbeat that changes something else keeps the policy, so that watches
	// do not read all Applications again.
	if found := p.known[runtime.ID]; found != nil && found.namespace == next.namespace && proto.Equal(reportedRights(found.state), reported) {
		found.state = runtime.State
		return found
	}
	if len(p.known) >= maxCached {
		clear(p.known)
	}
	p.known[runtime.ID] = next
	return next
}

// reportedRights returns the policy in the state of a runtime; nil if there is
// none.
func reportedRights(state []byte) *platformv1.RightsPolicy {
	heartbeat := &platformv1.HeartbeatRequest{}
	if proto.Unmarshal(state, heartbeat) != nil {
		return nil
	}
	return heartbeat.GetRights()
}

// parse compiles a reported policy. Lines without effect are the runtime's to
// report.
func parse(reported *platformv1.RightsPolicy) *rights.Policy {
	policy, _ := rights.ParseConfig(reported.GetConfig())
	all := []*rights.Policy{policy}
	for _, project := range reported.GetProjects() {
		var roles []rights.ProjectRole
		for _, role := range project.GetRoles() {
			roles = append(roles, rights.ProjectRole{Name: role.GetName(), Policies: role.GetPolicies(), Groups: role.GetGroups()})
		}
		part, _ := rights.ParseProject(project.GetProject(), roles, policy.Mode())
		all = append(all, part)
	}
	return rights.Merge(all...)
}

// user returns the request of a caller, without what is requested.
func user(caller identity.Caller) rights.Request {
	return rights.Request{
		Subject: caller.User.Email, Groups: caller.User.Groups, Roles: []string{rights.PlatformRole(string(caller.User.Role))},
	}
}

// Decide decides about a verb on an application as its runtime reported it.
func (p *Policy) Decide(caller identity.Caller, verb permission.Verb, application *platformv1.Application) rights.Decision {
	admin := caller.User.Role == store.RoleAdmin
	own := application.GetNamespace() == p.namespace && application.GetLabels()[wire.EntityLabel] != ""
	switch {
	case own && verb != permission.Get && !admin:
		return rights.Decision{Why: "the Application is a part of the runtime, which is for users with the role admin"}
	case p.closed && !admin:
		return rights.Decision{Why: "the policy of the runtime is too large for the platform, so that users with the role admin alone have rights there"}
	}
	request := user(caller)
	request.Resource, request.Action = verb.Policy()
	request.Object = rights.ApplicationObject(application.GetProject(), application.GetNamespace(), application.GetName(), p.namespace)
	return p.merged.Decide(request)
}

// MayRead reports whether another runtime of the account may read an application, for
// promotions. No role of the platform and no default role gives it: a rule has to name
// the runtime.
func (p *Policy) MayRead(runtime string, application *platformv1.Application) bool {
	if p.closed {
		return false
	}
	request := rights.Request{Subject: rights.RuntimeSubject(runtime)}
	request.Resource, request.Action = permission.Get.Policy()
	request.Object = rights.ApplicationObject(application.GetProject(), application.GetNamespace(), application.GetName(), p.namespace)
	return p.merged.Decide(request).Allowed
}

// Verbs returns what a caller may do with an application; nil without the right
// to get it. A key has no more than its scope.
func (p *Policy) Verbs(caller identity.Caller, application *platformv1.Application) (allowed []string) {
	if !p.Decide(caller, permission.Get, application).Allowed {
		return nil
	}
	for _, verb := range permission.Verbs() {
		if identity.Scoped(caller, verb.Rule()) && p.Decide(caller, verb, application).Allowed {
			allowed = append(allowed, string(verb))
		}
	}
	return allowed
}

// Require fails unless a rule, or the role, could allow the caller a verb on
// some Application of the runtime.
func (p *Policy) Require(caller identity.Caller, verb permission.Verb) error {
	request := user(caller)
	request.Resource, request.Action = verb.Policy()
	if p.merged.May(request) && (!p.closed || caller.User.Role == store.RoleAdmin) {
		return nil
	}
	return errors.New(verb.Rule().Missing(string(caller.User.Role)))
}

// Claims adds to the claims of a request what the runtime needs to decide: the
// groups that a policy names, and the platform's rules about the user.
func (p *Policy) Claims(caller identity.Caller, claims *wire.RuntimeClaims) error {
	excerpt := p.platform.Excerpt(user(caller))
	claims.Policy = wire.PolicyExcerpt{Text: excerpt.Text, Mode: string(excerpt.Mode), Default: excerpt.Default}
	size := len(excerpt.Text)
	claims.Groups = slices.DeleteFunc(slices.Clone(caller.User.Groups), func(group string) bool { return !p.merged.Names(group) })
	for _, group := range claims.Groups {
		size += len(group)
	}
	if size > maxClaims {
		return fmt.Errorf("the rules about %s have %d bytes, and at most %d fit into a request: give rights to roles, and fewer roles to the groups of the user", caller.User.Email, size, maxClaims)
	}
	return nil
}
