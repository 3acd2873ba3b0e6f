package permission

import (
	"slices"
	"sync"

	"slipway.dev/slipway/internal/wire"
)

// table maps procedure paths to rules. It is built once and never changes.
var table = sync.OnceValue(func() map[string]Rule {
	all := make(map[string]Rule)
	for _, service := range services() {
		for method, rule := range service.methods {
			all["/"+service.name+"/"+method] = rule
		}
	}
	return all
})

type service struct {
	name    string
	methods map[string]Rule
}

// read is a procedure without side effects, change one with side effects, quiet
// one that is called continuously.
func read(p Permission) Rule   { return Rule{Permission: p, Read: true} }
func change(p Permission) Rule { return Rule{Permission: p} }
func quiet(p Permission) Rule  { return Rule{Permission: p, Quiet: true} }

// pathRule is the row of a path: for requests that read, and for all others.
type pathRule struct{ read, change Rule }

// paths maps the paths of the platform and of a runtime's router that are no
// procedures to rules. A path that ends with a slash is a prefix.
var paths = sync.OnceValue(func() map[string]pathRule {
	same := func(rule Rule) pathRule { return pathRule{rule, rule} }
	return map[string]pathRule{
		"/":                same(read(Public)), // leads to the console
		"/console":         same(read(Public)),
		"/console/":        same(read(Public)),
		"/applications":    same(read(Public)), // as in Argo CD; leads to the console
		"/applications/":   same(read(Public)),
		"/healthz":         same(read(Public)),
		"/readyz":          same(read(Public)),
		"/auth/oidc/login": same(read(Public)),
		// The identity provider's code authenticates the request.
		"/auth/oidc/callback": same(change(Public)),
		wire.TunnelPath:       same(quiet(RuntimeOnly)),
		wire.PeerPath:         same(quiet(ReplicaOnly)),
		// A runtime verifies the signatures of webhooks.
		wire.WebhooksPath: same(change(Public)),
		// The procedures and paths below these two have rows of their own.
		wire.RuntimesPath: same(read(SignedIn)),
		wire.AppProxyPath: same(read(SignedIn)),
		// A workflow server acts with rights of its own, so that a viewer only
		// reads there.
		wire.WorkflowsPath: {read(View), change(Operate)},
	}
})

func services() []service {
	return slices.Concat(platformServices(), reportServices(), applicationServices(), runtimeServices())
}

func platformServices() []service {
	const v1 = "slipway.platform.v1."
	return []service{
		{v1 + "AuthService", map[string]Rule{
			"SignIn": change(Public),
			// The request contains a ticket of SignIn, which the procedure
			// verifies.
			"CompleteSignIn": change(Public),
			"Methods":        read(Public),
			"Me":             read(Self),
			"SignOut":        change(Session),
			"ChangePassword": change(Session),
		}},
		{v1 + "AccountService", map[string]Rule{
			"GetAccount":        read(SignedIn),
			"UpdateAccount":     change(Admin),
			"ListUsers":         read(Admin),
			"CreateUser":        change(Admin),
			"UpdateUser":        change(Admin),
			"ResetPassword":     change(Admin),
			"ResetSecondFactor": change(Admin),
			"DeleteUser":        change(Admin),
		}},
		// Adding the first factor must be possible before anything else.
		{v1 + "SecondFactorService", map[string]Rule{
			"ListFactors":         read(Session),
			"BeginTOTP":           change(Session),
			"FinishTOTP":          change(Session),
			"BeginPasskey":        change(Session),
			"FinishPasskey":       change(Session),
			"RemoveFactor":        change(Session),
			"CreateRecoveryCodes": change(Session),
		}},
		// The service itself limits users to their own keys.
		{v1 + "KeyService", map[string]Rule{
			"CreateKey": change(SignedIn),
			"ListKeys":  read(SignedIn),
			"RevokeKey": change(SignedIn),
		}},
		{v1 + "AuditService", map[string]Rule{
			"ListEntries": read(Admin),
		}},
		{v1 + "RuntimeService", map[string]Rule{
			"RegisterRuntime":   change(RegisterRuntime),
			"CheckName":         read(RegisterRuntime),
			"ValidateValues":    read(RegisterRuntime),
			"ListRuntimes":      read(SignedIn),
			"GetRuntime":        read(SignedIn),
			"WatchRuntimes":     read(SignedIn),
			"UpdateRuntime":     change(Admin),
			"DeleteRuntime":     change(Admin),
			"UninstallRuntime":  change(Admin),
			"RevokeCredentials": change(Admin),
		}},
		{v1 + "GitService", map[string]Rule{
			// An installation checks the Git token with the provider that the
			// account has.
			"GetGitSettings":   {Permission: View, Read: true, Registering: true},
			"SetGitSettings":   change(Admin),
			"ResetGitSettings": change(Admin),
			"GetTokenHelp":     read(SignedIn),
		}},
		{v1 + "ApplicationService", map[string]Rule{
			"ListApplications":  Get.Rule(),
			"WatchApplications": Get.Rule(),
			// Everyone may ask for their own rights.
			"CheckAccess": read(SignedIn),
		}},
	}
}

// reportServices returns the services of what runtimes report: those that store
// it, and those that show the past.
func reportServices() []service {
	const v1 = "slipway.platform.v1."
	return []service{
		// The service shows what concerns Applications that the caller may get.
		{v1 + "HistoryService", map[string]Rule{
			"ListDeployments":   Get.Rule(),
			"GetDora":           Get.Rule(),
			"GetTrafficHistory": Get.Rule(),
			"GetHistoryStatus":  read(View),
		}},
		{v1 + "AgentService", map[string]Rule{
			// The request contains a refresh token, which the procedure
			// verifies.
			"RenewCredential": quiet(Public),
			"Heartbeat":       quiet(RuntimeOnly),
			"Report":          quiet(RuntimeOnly),
			"ReportTraffic":   quiet(RuntimeOnly),
			// The procedure asks the policies, with the runtime as the subject.
			"ReadApplications": quiet(RuntimeOnly),
			"Unregister":       change(RuntimeOnly),
		}},
	}
}

// applicationServices returns the services of a runtime about its Applications,
// which decide by the rights on each.
func applicationServices() []service {
	const v1 = "slipway.runtime.v1."
	return []service{
		{v1 + "ApplicationService", map[string]Rule{
			"ListApplications": Get.Rule(),
			"GetApplication":   Get.Rule(),
			"WatchApplication": Get.Rule(),
			"GetTree":          Get.Rule(),
			"WatchTree":        Get.Rule(),
			"GetResource":      Get.Rule(),
			"Diff":             Get.Rule(),
			"GetHistory":       Get.Rule(),
			"ListEvents":       Get.Rule(),
			"WatchEvents":      Get.Rule(),
			"Logs":             Logs.Rule(),
			// The service also requires Override for another revision.
			"Sync":      Sync.Rule(),
			"Rollback":  Rollback.Rule(),
			"Revert":    Rollback.Rule(),
			"Terminate": Sync.Rule(),
			// Argo CD lets readers refresh. Here it needs the right to sync: an
			// automated sync may follow.
			"Refresh":           Sync.Rule(),
			"DeleteApplication": Delete.Rule(),
			"ListActions":       Get.Rule(),
			// The service requires the right of the single action.
			"RunAction": Action.Rule(),
		}},
		// The service requires the right of the single action.
		{v1 + "ReleaseService", map[string]Rule{
			"ListReleases":  Get.Rule(),
			"RequestAction": Action.Rule(),
		}},
		// As of releases: an action of the kind Promotion, on each Application that
		// it concerns.
		{v1 + "PromotionService", map[string]Rule{
			"ListPromotions":   Get.Rule(),
			"StartPromotion":   Action.Rule(),
			"ApprovePromotion": Action.Rule(),
			"AbortPromotion":   Action.Rule(),
		}},
	}
}

// runtimeServices returns the services of a runtime about itself: its components,
// clusters and credentials, and the traffic of its edges.
func runtimeServices() []service {
	const v1 = "slipway.runtime.v1."
	return []service{
		{v1 + "RuntimeService", map[string]Rule{
			"GetInfo":                read(View),
			"ComponentLogs":          read(Admin),
			"ConfigureAsApplication": change(Admin),
			// The results contain nodes, classes and certificates of the
			// cluster.
			"Preflight": read(Admin),
		}},
		// A Git Source is an Application of its project. The service decides by
		// the rights there, and confines other users than admins to the project.
		{v1 + "GitSourceService", map[string]Rule{
			"ListGitSources":  Get.Rule(),
			"CreateGitSource": Create.Rule(),
			"EditGitSource":   Update.Rule(),
			"DeleteGitSource": Delete.Rule(),
		}},
		{v1 + "ClusterService", map[string]Rule{
			"ListClusters":  read(View),
			"AddCluster":    change(Admin),
			"RemoveCluster": change(Admin),
		}},
		// Register and OAuth store the token of the calling user, who needs it to
		// write to Git. OAuth for the runtime's own token is limited to admins by
		// the service, which also shows users only their own token.
		{v1 + "IntegrationService", map[string]Rule{
			"ListIntegrations":      read(SignedIn),
			"AddIntegration":        change(Admin),
			"EditIntegration":       change(Admin),
			"RemoveIntegration":     change(Admin),
			"Register":              change(SignedIn),
			"Deregister":            change(SignedIn),
			"SetRuntimeCredentials": change(Admin),
			"GetRuntimeCredentials": read(Admin),
			"BeginOAuth":            change(SignedIn),
			"FinishOAuth":           change(SignedIn),
		}},
		// Traffic follows from Ingresses of Applications, which viewers can see.
		{v1 + "TrafficService", map[string]Rule{
			"WatchTraffic": read(View),
			"Explain":      read(View),
		}},
	}
}
