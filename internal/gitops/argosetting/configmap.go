package argosetting

import "strings"

// ownConsole is the text of settings that are about programs of Argo CD which
// are not here.
const ownConsole = "of Argo CD's own API and console: nothing to do"

// ParametersConfigMap has the settings of Argo CD's processes, in the control
// namespace. Nothing is set by it: what is in it is reported.
const ParametersConfigMap = "argocd-cmd-params-cm"

// valueFileSchemes is what becomes of helm.valuesFileSchemes. Without it Argo CD reads
// value files from https and http addresses.
func valueFileSchemes(value string) Setting {
	schemes := map[string]bool{}
	for scheme := range strings.SplitSeq(value, ",") {
		schemes[strings.TrimSpace(scheme)] = true
	}
	limited := !schemes["https"] || !schemes["http"]
	delete(schemes, "https")
	delete(schemes, "http")
	delete(schemes, "")
	switch {
	case len(schemes) > 0:
		return Setting{Differs, "value files are read from https and http addresses only: commit the others"}
	case limited:
		return Setting{Differs, "value files may be at https and http addresses that sourceRepos of the AppProject allows: limit them there"}
	}
	return Setting{Effect: Same}
}

// Config returns the settings of argocd-cm.
func Config() Table {
	return Table{
		used("resource.exclusions", "resource.inclusions", "resource.compareoptions", "resource.customizations",
			"resource.customizations.health.*", "resource.customizations.actions.*", "resource.customizations.useOpenLibs.*",
			"resource.customizations.ignoreDifferences.*", "resource.customizations.knownTypeFields.*", "globalProjects"),
		unused("set applications.pollInterval and applications.pollJitter of the agent", "timeout.reconciliation", "timeout.reconciliation.jitter"),
		unused("set the annotation argocd.argoproj.io/refresh: hard where it is needed", "timeout.hard.reconciliation").unless("0", "0s"),
		unused("remove it: an update that changes no status costs no request", "resource.customizations.ignoreResourceUpdates.*", "resource.ignoreResourceUpdatesEnabled"),
		unused("remove it: objects are tracked by annotation", "application.instanceLabelKey", "application.resourceTrackingMethod", "installationID"),
		decided(kustomizeOptions, "kustomize.buildOptions"),
		differing("every source is built with the one built-in version of Kustomize: remove it", "kustomize.buildOptions.*"),
		differing("every source is built with the one built-in version of Kustomize: remove it", "kustomize.path*", "kustomize.version*"),
		decided(valueFileSchemes, "helm.valuesFileSchemes"),
		differing("write options into the sources of the Applications", "kustomize.enable", "jsonnet.enable", "helm.enable").unless("true"),
		differing("write a Secret with the label argocd.argoproj.io/secret-type for each repository", "repositories", "repository.credentials", "helm.repositories"),
		unused("remove it: Argo CD does not read it either since version 2.8; plugins are sidecars of the agent", "configManagementPlugins"),
		unused("name destinationServiceAccounts in the AppProjects", "application.sync.impersonation.enabled").unless("false"),
		differing("name a destinationServiceAccount for every destination of each AppProject: without one the rights of the runtime are used", "application.sync.impersonation.enforced").unless("false"),
		differing("leave the runtime's own cluster out of destinations of the AppProjects", "cluster.inClusterEnabled").unless("true"),
		differing("a sync to another revision needs the right override: give it to users who may do that", "application.sync.requireOverridePrivilegeForRevisionSync").unless("true"),
		unused("remove it: objects of Applications are changed by Git and by actions only", "server.rbac.disableApplicationFineGrainedRBACInheritance").unless("true"),
		unused("remove it: values of annotations of Secrets are not shown", "resource.sensitive.mask.annotations"),
		unused("remove it: only kinds that Applications use are watched", "resource.respectRBAC"),
		unused("rendered manifests are not written to Git", "sourceHydrator.*", "commit.author.*"),
		unused("a push refreshes only Applications whose files changed", "webhook.refresh.*", "webhook.maxPayloadSizeMB"),
		unused("users sign in at the platform: see its options oidc.*", "dex.config", "oidc.config", "oidc.tls.insecure.skip.verify", "admin.enabled", "accounts.*",
			"users.*", "passwordPattern"),
		unused(ownConsole, "url", "additionalUrls", "statusbadge.*", "ga.*", "help.*", "ui.*", "exec.*", "project.links", "application.links", "resource.links",
			"extension.config*", "server.maxPodLogsToRender", "application.allowedNodeLabels", "resource.customLabels",
			"resource.includeEventLabelKeys", "resource.excludeEventLabelKeys"),
	}
}

// Parameters returns the settings of argocd-cmd-params-cm.
func Parameters() Table {
	const process = "of Argo CD's own processes: nothing to do"
	return Table{
		differing("set applications.namespaces of the agent", "application.namespaces", "applicationsetcontroller.namespaces"),
		differing("list the hosts that generators may use in sourceRepos of the AppProjects", "applicationsetcontroller.allowed.scm.providers"),
		differing("leave generators of Git hosts out of the ApplicationSets", "applicationsetcontroller.enable.scm.providers").unless("true"),
		differing("write spec.syncPolicy.applicationsSync into each ApplicationSet", "applicationsetcontroller.policy").unless("sync"),
		differing("write spec.syncPolicy.applicationsSync into each ApplicationSet: it always counts here", "applicationsetcontroller.enable.policy.override"),
		differing("write spec.preservedFields into each ApplicationSet", "applicationsetcontroller.global.preserved.*"),
		differing("ApplicationSets write Applications: remove those that should not", "applicationsetcontroller.dryrun").unless("false"),
		differing("a rolling sync of an ApplicationSet is always done in steps", "applicationsetcontroller.enable.progressive.syncs").unless("true"),
		differing("a symbolic link that leaves its repository is refused: commit the file", "reposerver.allow.oob.symlinks").unless("false"),
		differing("submodules are fetched: take those that must not be out of the repository", "reposerver.enable.git.submodule", "applicationsetcontroller.enable.git.submodule").unless("true"),
		differing("generators leave hidden folders out: name these in a list generator, or rename them", "reposerver.include.hidden.directories").unless("false"),
		differing("config management plugins get all files of a revision: keep large ones elsewhere", "reposerver.plugin.tar.exclusions"),
		differing("config management plugins get all files of a revision: keep large ones elsewhere", "reposerver.plugin.use.manifest.generate.paths").unless("false"),
		differing("set render.outputLimit of the agent", "reposerver.max.combined.directory.manifests.size").unless("10M"),
		differing("a sync as a whole has no limit: write the annotation slipway.dev/progress-deadline on objects that need one", "controller.sync.timeout.seconds").unless("0"),
		unused("differences are always those of a dry run by the API server", "controller.diff.server.side"),
		unused("remove it: waves follow each other by events", "controller.sync.wave.delay.seconds"),
		unused("remove it: drift is repaired at once, with a backoff of its own", "controller.self.heal.*"),
		differing("Replace cannot be forbidden: give the right sync to users who may use it", "server.sync.replace.allowed").unless("true"),
		unused("set render.timeout and sources.fetchTimeout of the agent", "reposerver.git.request.timeout", "controller.repo.server.timeout.seconds", "server.repo.server.timeout.seconds"),
		unused("rendered manifests are not written to Git", "hydrator.enabled", "commit.server", "commitserver.*", "controller.hydration.processors"),
		unused("set the options log.level and log.format of the agent", "controller.log.*", "reposerver.log.*", "applicationsetcontroller.log.*", "log.format.timestamp"),
		unused("the agent sends no spans", "otlp.*"),
		unused(process, "repo.server", "redis.*", "controller.*", "server.*", "reposerver.*", "dexserver.*", "applicationsetcontroller.*", "notificationscontroller.*"),
	}
}

// Policy returns the settings of argocd-rbac-cm.
func Policy() Table {
	return Table{
		used("policy.csv", "policy.default", "policy.matchMode", "policy.*"),
		unused("set oidc.groupsClaim of the platform to the claim with the groups", "scopes"),
	}
}

// Notifications returns the settings of argocd-notifications-cm. Services that are not
// supported are refused by type.
func Notifications() Table {
	const hook = "use a service of the type webhook"
	return Table{
		refused(hook, "service.awssqs*", "service.gcppubsub*", "service.nats*", "service.webex*", "service.rocketchat*", "service.pushover*",
			"service.newrelic*", "service.grafana*"),
		refused("use a service of the type pagerdutyv2", "service.pagerduty", "service.pagerduty.*"),
		used("trigger.*", "template.*", "service.*", "subscriptions", "defaultTriggers", "defaultTriggers.*", "context"),
		refused("write keys service.*, trigger.* and template.*", "config.yaml"),
	}
}
