package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// longestField bounds the texts that a runtime says of itself.
const longestField = 512

// mostRuntimes bounds the runtimes of an account.
const mostRuntimes = 5000

// registerAttempts is how often a registration looks for its place when others
// register at the same time.
const registerAttempts = 5

// RegisterRuntime makes a runtime known, or gives one that registers again new
// credentials.
func (r runtimeService) RegisterRuntime(ctx context.Context, request *connect.Request[platformv1.RegisterRuntimeRequest]) (*connect.Response[platformv1.RegisterRuntimeResponse], error) {
	response, again, err := r.register(ctx, request.Msg)
	label := "new"
	switch {
	case err != nil:
		label = "refused"
	case again:
		label = "again"
	}
	r.metrics.registrations.WithLabelValues(label).Inc()
	if err != nil {
		return nil, r.answer(err)
	}
	r.log.Info("a runtime has registered", "runtime", response.GetRuntime().GetName(), "account", response.GetAccountId(), "again", again)
	return connect.NewResponse(response), nil
}

func (f *Fleet) register(ctx context.Context, given *platformv1.RegisterRuntimeRequest) (_ *platformv1.RegisterRuntimeResponse, again bool, err error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := checkRegistration(given); err != nil {
		return nil, false, err
	}
	var runtime store.Runtime
	for attempt := 1; ; attempt++ {
		runtime, again, err = f.settle(ctx, accountID, given)
		conflict := (*store.ConflictError)(nil)
		if !errors.As(err, &conflict) || attempt == registerAttempts {
			break
		}
		// Another has the name or the place since it was looked: to look again says who.
	}
	if err != nil {
		return nil, false, err
	}
	credential, err := f.issue(ctx, runtime)
	if err != nil {
		return nil, false, err
	}
	return &platformv1.RegisterRuntimeResponse{
		Runtime: f.message(runtime), AccountId: accountID, Credential: credential,
	}, again, nil
}

// settle finds the runtime that registers, or makes it. The database decides between
// those that register at the same time, at whichever replica.
func (f *Fleet) settle(ctx context.Context, accountID string, given *platformv1.RegisterRuntimeRequest) (runtime store.Runtime, again bool, err error) {
	others, err := f.all(ctx, accountID)
	if err != nil {
		return runtime, false, err
	}
	before, err := f.place(given, others)
	if err != nil {
		return runtime, false, err
	}
	runtime, err = f.put(ctx, accountID, given, before)
	if err != nil {
		return runtime, false, err
	}
	// The first is the configuration runtime (R119), and so is one that asks for it.
	if given.GetConfigurationRuntime() || !slices.ContainsFunc(others, func(o store.Runtime) bool { return o.ConfigurationRuntime }) {
		if err := f.store.SetConfigurationRuntime(ctx, accountID, runtime.ID); err != nil {
			return runtime, false, err
		}
		runtime.ConfigurationRuntime = true
	}
	return runtime, before != nil, nil
}

// place says which runtime registers again, or nil when it is a new one, and
// refuses a name or a place that another has.
func (f *Fleet) place(given *platformv1.RegisterRuntimeRequest, others []store.Runtime) (*store.Runtime, error) {
	var before *store.Runtime
	for i := range others {
		other := &others[i]
		sameCluster := other.ClusterUID == given.GetClusterUid()
		switch {
		case other.Name == given.GetName() && !sameCluster:
			return nil, connect.NewError(connect.CodeAlreadyExists, fmt.Errorf(
				"another cluster (%s) has the runtime %q: choose another name, such as %q, or delete that one if its cluster is gone",
				other.Cluster, other.Name, proposal(other.Name, others)))
		case other.Name == given.GetName() && other.Namespace != given.GetNamespace() && f.online(*other):
			return nil, connect.NewError(connect.CodeAlreadyExists, fmt.Errorf(
				"the runtime %q is online in the namespace %s of this cluster: uninstall it there first, or choose another name, such as %q",
				other.Name, other.Namespace, proposal(other.Name, others)))
		case other.Name == given.GetName():
			before = other
		case sameCluster && other.Namespace == given.GetNamespace():
			return nil, refused(
				"the namespace %s of this cluster has the runtime %q already: a namespace has one runtime; use another namespace, or uninstall and delete %q",
				other.Namespace, other.Name, other.Name)
		}
	}
	if before == nil && len(others) >= mostRuntimes {
		return nil, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the account has %d runtimes, which is the most that is possible", len(others)))
	}
	return before, nil
}

// put stores what a registration says.
func (f *Fleet) put(ctx context.Context, accountID string, given *platformv1.RegisterRuntimeRequest, before *store.Runtime) (store.Runtime, error) {
	tell := func(runtime *store.Runtime) error {
		runtime.Namespace, runtime.Cluster, runtime.ClusterUID = given.GetNamespace(), given.GetCluster(), given.GetClusterUid()
		runtime.Version, runtime.ChartVersion, runtime.KubernetesVersion = given.GetVersion(), given.GetChartVersion(), given.GetKubernetesVersion()
		runtime.AccessMode, runtime.AccessURL, runtime.IngressClass = int32(given.GetAccessMode()), given.GetAccessUrl(), given.GetIngressClass()
		runtime.Uninstalling, runtime.CleanSharedRepository = false, false
		return nil
	}
	if before != nil {
		return f.store.UpdateRuntime(ctx, before.ID, tell)
	}
	fresh := store.Runtime{AccountID: accountID, Name: given.GetName(), RegisteredAt: f.now().UTC()}
	_ = tell(&fresh) // it never fails
	return f.store.CreateRuntime(ctx, fresh)
}

// checkRegistration refuses what cannot be a runtime.
func checkRegistration(given *platformv1.RegisterRuntimeRequest) error {
	if err := wire.RuntimeName(given.GetName()); err != nil {
		return invalid("%w", err)
	}
	if given.GetNamespace() == "" || given.GetClusterUid() == "" {
		return invalid("a runtime needs its namespace and the UID of its cluster")
	}
	for _, text := range []string{
		given.GetNamespace(), given.GetCluster(), given.GetClusterUid(), given.GetKubernetesVersion(),
		given.GetVersion(), given.GetChartVersion(), given.GetIngressClass(),
	} {
		if len(text) > longestField {
			return invalid("a value has %d characters; at most %d are possible", len(text), longestField)
		}
	}
	return checkAccess(given.GetAccessMode(), given.GetAccessUrl())
}

// checkAccess refuses an access mode without what it needs.
func checkAccess(mode platformv1.AccessMode, text string) error {
	if _, known := platformv1.AccessMode_name[int32(mode)]; !known || mode == platformv1.AccessMode_ACCESS_MODE_UNSPECIFIED {
		return invalid("a runtime needs an access mode: tunnel, ingress, HTTPRoute or mesh")
	}
	if mode == platformv1.AccessMode_ACCESS_MODE_TUNNEL {
		if text != "" {
			return invalid("a runtime in tunnel mode has no access URL: leave it empty")
		}
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Hostname() == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" || len(text) > longestField {
		return invalid("a runtime that is not in tunnel mode needs an access URL such as https://runtime.example.com, without user, query and fragment")
	}
	return nil
}

// CheckName says whether a runtime can have a name.
func (r runtimeService) CheckName(ctx context.Context, request *connect.Request[platformv1.CheckNameRequest]) (*connect.Response[platformv1.CheckNameResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	name := request.Msg.GetName()
	others, err := r.all(ctx, accountID)
	if err != nil {
		return nil, r.answer(err)
	}
	answer := &platformv1.CheckNameResponse{}
	if err := wire.RuntimeName(name); err != nil {
		answer.Reason, answer.Proposal = err.Error(), proposal(spelled(name), others)
	} else if taken(name, others) {
		answer.Reason, answer.Proposal = fmt.Sprintf("the account has a runtime %q already", name), proposal(name, others)
	} else {
		answer.Free, answer.Proposal = true, name
	}
	return connect.NewResponse(answer), nil
}

func taken(name string, others []store.Runtime) bool {
	return slices.ContainsFunc(others, func(o store.Runtime) bool { return o.Name == name })
}

// spelled makes a name of a text: what the rule does not allow becomes a dash.
func spelled(text string) string {
	name := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, strings.ToLower(text[:min(len(text), longestField)]))
	name = strings.TrimLeft(name, "-0123456789")
	name = strings.TrimRight(name[:min(len(name), wire.RuntimeNameMax)], "-")
	if name == "" {
		return "slipway"
	}
	return name
}

// proposal is the name, or the name with a number, that no runtime has.
func proposal(base string, others []store.Runtime) string {
	name := base
	for number := 2; taken(name, others); number++ {
		suffix := "-" + strconv.Itoa(number)
		name = strings.TrimRight(base[:min(len(base), wire.RuntimeNameMax-len(suffix))], "-") + suffix
	}
	return name
}
