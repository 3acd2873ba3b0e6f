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

// maxField bounds the texts that a runtime reports about itself.
const maxField = 512

// maxRuntimes bounds the runtimes of an account.
const maxRuntimes = 5000

// registerAttempts bounds the retries after conflicts with concurrent
// registrations.
const registerAttempts = 5

// RegisterRuntime registers a runtime, or issues new credentials to one that
// registers again.
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
		return nil, r.apiError(err)
	}
	r.log.Info("runtime registered", "runtime", response.GetRuntime().GetName(), "account", response.GetAccountId(), "again", again)
	return connect.NewResponse(response), nil
}

// register finds or creates the runtime and issues its credential.
func (f *Fleet) register(ctx context.Context, given *platformv1.RegisterRuntimeRequest) (_ *platformv1.RegisterRuntimeResponse, again bool, err error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := checkRegistration(given); err != nil {
		return nil, false, err
	}
	// Each attempt reads the runtimes again, so that the error names the
	// runtime that took the name.
	var runtime store.Runtime
	for attempt := 1; ; attempt++ {
		runtime, again, err = f.findOrCreate(ctx, accountID, given)
		conflict := (*store.ConflictError)(nil)
		if !errors.As(err, &conflict) || attempt == registerAttempts {
			break
		}
		// A concurrent registration took the name or namespace: the retry
		// reports which.
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

// findOrCreate returns the runtime that registers, and creates it if needed.
// Unique constraints of the database decide between concurrent registrations,
// also across replicas.
func (f *Fleet) findOrCreate(ctx context.Context, accountID string, given *platformv1.RegisterRuntimeRequest) (runtime store.Runtime, again bool, err error) {
	others, err := f.allRuntimes(ctx, accountID)
	if err != nil {
		return runtime, false, err
	}
	before, err := f.existingRuntime(given, others)
	if err == nil && before != nil {
		err = f.checkReplaceable(ctx, *before)
	}
	if err != nil {
		return runtime, false, err
	}
	runtime, err = f.storeRegistration(ctx, accountID, given, before)
	if err != nil {
		return runtime, false, err
	}
	// The first runtime becomes the configuration runtime (R119), as does one
	// that requests it.
	if given.GetConfigurationRuntime() || !slices.ContainsFunc(others, func(o store.Runtime) bool { return o.ConfigurationRuntime }) {
		if err := f.store.SetConfigurationRuntime(ctx, accountID, runtime.ID); err != nil {
			return runtime, false, err
		}
		runtime.ConfigurationRuntime = true
	}
	return runtime, before != nil, nil
}

// existingRuntime returns the runtime that registers again, or nil for a new
// one. It rejects a name or namespace that another runtime has. The same name
// in the same cluster is a reinstallation.
func (f *Fleet) existingRuntime(given *platformv1.RegisterRuntimeRequest, others []store.Runtime) (*store.Runtime, error) {
	var before *store.Runtime
	for i := range others {
		other := &others[i]
		sameCluster := other.ClusterUID == given.GetClusterUid()
		switch {
		case other.Name == given.GetName() && !sameCluster:
			return nil, connect.NewError(connect.CodeAlreadyExists, fmt.Errorf(
				"another cluster (%s) has the runtime %q: choose another name, such as %q, or delete that one if its cluster is gone",
				other.Cluster, other.Name, proposal(other.Name, others)))
		// A runtime that moved to another namespace of its cluster may take
		// over its name once the old one is offline.
		case other.Name == given.GetName() && other.Namespace != given.GetNamespace() && f.online(*other):
			return nil, connect.NewError(connect.CodeAlreadyExists, fmt.Errorf(
				"the runtime %q is online in the namespace %s of this cluster: uninstall it there first, or choose another name, such as %q",
				other.Name, other.Namespace, proposal(other.Name, others)))
		case other.Name == given.GetName():
			before = other
		case sameCluster && other.Namespace == given.GetNamespace():
			return nil, failedPrecondition(
				"the namespace %s of this cluster has the runtime %q already: a namespace has one runtime; use another namespace, or uninstall and delete %q",
				other.Namespace, other.Name, other.Name)
		}
	}
	if before == nil && len(others) >= maxRuntimes {
		return nil, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the account has %d runtimes, which is the most that is possible", len(others)))
	}
	return before, nil
}

// checkReplaceable rejects new credentials for a runtime that is online: a
// registration key and the UID of the cluster would be enough to take its place.
// An admin who revokes the credentials allows it.
func (f *Fleet) checkReplaceable(ctx context.Context, runtime store.Runtime) error {
	if !f.online(runtime) {
		return nil
	}
	credential, err := f.store.Credential(ctx, runtime.ID)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && credential.Revoked:
		return nil
	case err != nil:
		return err
	}
	return failedPrecondition(
		"the runtime %q is online, and gets no new credentials meanwhile: wait %d seconds after its last heartbeat, or let an admin revoke the present ones with slipway runtime revoke %s",
		runtime.Name, int(store.OfflineAfter.Seconds()), runtime.Name)
}

// storeRegistration stores the fields of a registration.
func (f *Fleet) storeRegistration(ctx context.Context, accountID string, given *platformv1.RegisterRuntimeRequest, before *store.Runtime) (store.Runtime, error) {
	update := func(runtime *store.Runtime) error {
		runtime.Namespace, runtime.Cluster, runtime.ClusterUID = given.GetNamespace(), given.GetCluster(), given.GetClusterUid()
		runtime.Version, runtime.ChartVersion, runtime.KubernetesVersion = given.GetVersion(), given.GetChartVersion(), given.GetKubernetesVersion()
		runtime.AccessMode, runtime.AccessURL, runtime.IngressClass = int32(given.GetAccessMode()), given.GetAccessUrl(), given.GetIngressClass()
		// A runtime that registers again is not being uninstalled any more.
		runtime.Uninstalling, runtime.CleanSharedRepository = false, false
		return nil
	}
	if before != nil {
		return f.store.UpdateRuntime(ctx, before.ID, update)
	}
	fresh := store.Runtime{AccountID: accountID, Name: given.GetName(), RegisteredAt: f.now().UTC()}
	_ = update(&fresh) // never fails
	return f.store.CreateRuntime(ctx, fresh)
}

// checkRegistration validates the fields of a registration.
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
		if len(text) > maxField {
			return invalid("a value has %d characters; at most %d are possible", len(text), maxField)
		}
	}
	return checkAccess(given.GetAccessMode(), given.GetAccessUrl())
}

// checkAccess validates the access mode with its URL.
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
		u.RawQuery != "" || u.Fragment != "" || len(text) > maxField {
		return invalid("a runtime that is not in tunnel mode needs an access URL such as https://runtime.example.com, without user, query and fragment")
	}
	return nil
}

// CheckName reports whether a name is valid and available, with a proposal if
// not.
func (r runtimeService) CheckName(ctx context.Context, request *connect.Request[platformv1.CheckNameRequest]) (*connect.Response[platformv1.CheckNameResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	name := request.Msg.GetName()
	others, err := r.allRuntimes(ctx, accountID)
	if err != nil {
		return nil, r.apiError(err)
	}
	response := &platformv1.CheckNameResponse{}
	if err := wire.RuntimeName(name); err != nil {
		response.Reason, response.Proposal = err.Error(), proposal(normalizeName(name), others)
	} else if taken(name, others) {
		response.Reason, response.Proposal = fmt.Sprintf("the account has a runtime %q already", name), proposal(name, others)
	} else {
		response.Free, response.Proposal = true, name
	}
	return connect.NewResponse(response), nil
}

// taken reports whether a runtime has the name.
func taken(name string, others []store.Runtime) bool {
	return slices.ContainsFunc(others, func(o store.Runtime) bool { return o.Name == name })
}

// normalizeName derives a valid name from a text: invalid characters become
// dashes.
func normalizeName(text string) string {
	name := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, strings.ToLower(text[:min(len(text), maxField)]))
	name = strings.TrimLeft(name, "-0123456789")
	name = strings.TrimRight(name[:min(len(name), wire.RuntimeNameMax)], "-")
	if name == "" {
		return "slipway"
	}
	return name
}

// proposal returns the name, with a number appended if it is taken.
func proposal(base string, others []store.Runtime) string {
	name := base
	for number := 2; taken(name, others); number++ {
		suffix := "-" + strconv.Itoa(number)
		name = strings.TrimRight(base[:min(len(base), wire.RuntimeNameMax-len(suffix))], "-") + suffix
	}
	return name
}
