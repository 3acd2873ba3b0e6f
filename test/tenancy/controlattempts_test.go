package tenancy

// controlAttempts are commits to the folder that evil has in the control
// namespace, by the documented app of apps: they are after the runtime, its
// credentials, and Applications of others.
func controlAttempts() []attempt {
	const (
		only    = "project evil-apps may write its Applications and ApplicationSets only"
		another = "it is in another project than evil-apps"
		source  = `source: {repoURL: "http://localhost/evil/apps", path: x}, destination: {namespace: evil}`
	)
	inControl := func(name, manifest, reason, object string) attempt {
		return attempt{name: name, git: manifest, applies: root("evil-apps"), reason: reason, proof: absent(object)}
	}
	child := func(metadata, project string) string {
		return "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {" + metadata + "}\nspec: {project: " + project + ", " + source + "}\n"
	}
	set := func(name, project, more string) string {
		return "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: " + name + ", namespace: slipway}\nspec:\n  goTemplate: true\n" +
			"  template: {metadata: {name: NAME-made}, spec: {project: " + project + ", " + source + "}}\n  " + more + "\n"
	}
	const list = "generators: [{list: {elements: [{p: default}]}}]"
	ofBank := func(kind string) string {
		return "apiVersion: argoproj.io/v1alpha1\nkind: " + kind + "\nmetadata: {name: NAME-bank, namespace: slipway}\n"
	}
	bankApp := ofBank("Application") + `spec: {project: bank, source: {repoURL: "http://localhost/corp/other", path: ., targetRevision: main}, destination: {namespace: bank}}` + "\n"
	bankSet := ofBank("ApplicationSet") + `spec: {goTemplate: true, generators: [{list: {elements: []}}], template: {metadata: {name: "{{.name}}"}, spec: {project: bank, source: {repoURL: "http://localhost/corp/other", path: .}, destination: {namespace: bank}}}}` + "\n"
	return []attempt{
		inControl("secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME, labels: {argocd.argoproj.io/secret-type: repository}}\n", only, "Secret slipway/secret"),
		inControl("secret-in-list", "apiVersion: v1\nkind: SecretList\nitems: [{metadata: {name: NAME}}]\n", only, "Secret slipway/secret-in-list"),
		inControl("role-binding", "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: NAME}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: [{kind: User, name: evil, apiGroup: rbac.authorization.k8s.io}]\n",
			only, "RoleBinding slipway/role-binding"),
		inControl("service-account", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: NAME}\n", only, "ServiceAccount slipway/service-account"),
		inControl("deployment", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: NAME}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {serviceAccountName: slipway-agent, containers: [{name: a, image: b}]}}}\n",
			only, "Deployment slipway/deployment"),
		inControl("known-hosts", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-ssh-known-hosts-cm}\n", only, "ConfigMap slipway/argocd-ssh-known-hosts-cm"),
		inControl("project", "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: NAME}\nspec: {sourceRepos: ['*']}\n", only, "AppProject slipway/project"),
		{name: "own-limits", git: "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: evil-apps}\nspec: {sourceRepos: ['*']}\n", applies: root("evil-apps"),
			reason: only, proof: intact("AppProject slipway/evil-apps")},
		inControl("child-of-default", child("name: NAME-child", "default"), another, "Application slipway/child-of-default-child"),
		inControl("child-without-project", child("name: NAME-child", `""`), another, "Application slipway/child-without-project-child"),
		inControl("child-elsewhere", child("name: NAME-child, namespace: bank", "evil-apps"), "does not allow namespace bank", "Application bank/child-elsewhere-child"),
		inControl("set-of-default", set("NAME-set", "default", list), another, "ApplicationSet slipway/set-of-default-set"),
		inControl("set-by-parameter", set("NAME-set", `"{{.p}}"`, list), another, "ApplicationSet slipway/set-by-parameter-set"),
		inControl("set-by-generator", set("NAME-set", "evil-apps", "generators: [{list: {elements: [{p: default}], template: {spec: {project: default}}}}]"), another, "ApplicationSet slipway/set-by-generator-set"),
		{name: "overwrite", prepares: bankApp, git: child("name: NAME-bank", "evil-apps"), applies: root("evil-apps"), reason: another, proof: intact("Application slipway/overwrite-bank")},
		{name: "finalizer", prepares: bankApp, git: child("name: NAME-bank, finalizers: [resources-finalizer.argocd.argoproj.io]", "evil-apps"), applies: root("evil-apps"),
			reason: another, proof: intact("Application slipway/finalizer-bank")},
		{name: "overwrite-set", prepares: bankSet, git: set("NAME-bank", "evil-apps", list), applies: root("evil-apps"), reason: another, proof: intact("ApplicationSet slipway/overwrite-set-bank")},
		{name: "take-over", prepares: "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: NAME-bank, namespace: slipway, annotations: {argocd.argoproj.io/tracking-id: \"bank-root:argoproj.io/Application:slipway/NAME-bank\"}}\n" +
			"spec: {project: evil-apps, " + source + "}\n", git: child("name: NAME-bank", "evil-apps"), applies: root("evil-apps"), reason: "another Application owns it", proof: intact("Application slipway/take-over-bank")},
		// A hook of the deletion would be deleted before it is created.
		{name: "hook-of-deletion", prepares: bankApp, git: child("name: NAME-bank, annotations: {argocd.argoproj.io/hook: PreDelete}", "evil-apps"),
			applies: app{namespace: control, project: "evil-apps", metadata: cascading, policy: byHand}.yaml(), deletes: true, reason: another, proof: intact("Application slipway/hook-of-deletion-bank")},
		{name: "runtime", git: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: slipway-agent}\nspec: {replicas: 0, selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: agent, image: evil}]}}}\n",
			applies: root("operators"), reason: "it is a part of the runtime", proof: intact("Deployment slipway/slipway-agent")},
		{name: "from-outside", git: child("name: NAME-child, namespace: slipway", "evil-apps"), applies: app{project: "evil-apps"}.yaml(),
			reason: "where only Applications of that namespace may write", proof: absent("Application slipway/from-outside-child")},
		{name: "by-pattern", git: child("name: NAME-child", "patterns"), applies: root("patterns"), reason: "which a pattern does not reach", proof: absent("Application slipway/by-pattern-child")},
		{name: "second-address", git: "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\n", applies: app{project: "remote", destination: "{name: second-name, namespace: slipway}"}.yaml(),
			reason: "where only Applications of that namespace may write", proof: absent("Secret slipway/second-address")},
		// What a set of evil in the control namespace reads, and what it takes over.
		{name: "set-reads-bank", git: set("NAME", "evil-apps", `generators: [{git: {repoURL: "http://localhost/corp/NAME", revision: main, files: [{path: "secrets/*.yaml"}]}}]`),
			applies: root("evil-apps"), readOn: "ApplicationSet slipway/set-reads-bank", reason: "spec.sourceRepos does not have it", proof: unrequested("corp/set-reads-bank")},
		// A token of bank, to be sent to the API of evil's own repository.
		{name: "set-token", git: set("NAME", "evil-apps", `generators: [{pullRequest: {gitea: {owner: evil, repo: apps, api: "http://localhost", tokenRef: {secretName: private, key: bearerToken}}}}]`),
			applies: root("evil-apps"), readOn: "ApplicationSet slipway/set-token", reason: "is not for project evil-apps", proof: unrequested("api/v1/repos/evil/apps/pulls")},
		// A patch leaves the project as it is, and cannot lead to another namespace.
		{name: "set-by-patch", git: set("NAME", "evil-apps", list+"\n  templatePatch: '{\"metadata\": {\"namespace\": \"bank\"}, \"spec\": {\"project\": \"default\"}}'"),
			applies: root("evil-apps"), readOn: "ApplicationSet slipway/set-by-patch", reason: "would be in namespace bank", proof: absent("Application bank/set-by-patch-made")},
		{name: "set-takes-over", prepares: bankApp, git: "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: NAME, namespace: slipway}\nspec:\n  goTemplate: true\n  " + list +
			"\n  template: {metadata: {name: NAME-bank}, spec: {project: evil-apps, " + source + "}}\n",
			applies: root("evil-apps"), readOn: "ApplicationSet slipway/set-takes-over", reason: "exists in project bank, and not in evil-apps", proof: intact("Application slipway/set-takes-over-bank")},
	}
}

// setAttempts are ApplicationSets in evil's own namespace.
func setAttempts() []attempt {
	set := func(name, project, generators, reason string, seen proof) attempt {
		return attempt{name: name, reason: reason, proof: seen, applies: `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: NAME}
spec:
  goTemplate: true
  generators: [` + generators + `]
  template: {metadata: {name: NAME-made}, spec: {project: ` + project + `, source: {repoURL: "http://localhost/evil/apps", path: x}, destination: {namespace: evil}}}
`}
	}
	const list = "{list: {elements: [{p: bank}]}}"
	made := func(name string) proof { return absent("Application evil/" + name + "-made") }
	elsewhere := set("set-elsewhere", evil, list, "spec.template.metadata.namespace", absent("Application slipway/set-elsewhere-made"))
	elsewhere.applies = `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: NAME}
spec:
  goTemplate: true
  generators: [` + list + `]
  template: {metadata: {name: NAME-made, namespace: slipway}, spec: {project: evil, source: {repoURL: "http://localhost/evil/apps", path: x}, destination: {namespace: evil}}}
`
	return []attempt{
		set("set-repository", evil, `{git: {repoURL: "http://localhost/corp/NAME", revision: main, directories: [{path: "*"}]}}`, "spec.sourceRepos does not have it", all(made("set-repository"), unrequested("corp/set-repository"))),
		set("set-matrix", evil, `{matrix: {generators: [{list: {elements: [{r: "http://localhost/corp/NAME"}]}}, {git: {repoURL: "{{.r}}", revision: main, directories: [{path: "*"}]}}]}}`,
			"spec.sourceRepos does not have it", all(made("set-matrix"), unrequested("corp/set-matrix"))),
		set("set-pulls", evil, `{pullRequest: {gitea: {owner: corp, repo: NAME, api: "http://localhost"}}}`, "spec.sourceRepos does not have it", all(made("set-pulls"), unrequested("repos/corp/set-pulls"))),
		set("set-repositories", evil, `{scmProvider: {gitea: {owner: corp, api: "http://localhost"}}}`, "spec.sourceRepos does not have it", all(made("set-repositories"), unrequested("orgs/corp/repos"))),
		set("set-pulls-inside", "forbidding", `{pullRequest: {gitea: {owner: evil, repo: apps, api: "http://169.254.169.254"}}}`, "which is not connected to", made("set-pulls-inside")),
		set("set-pulls-secret", evil, `{pullRequest: {gitea: {owner: evil, repo: apps, api: "http://localhost", tokenRef: {secretName: ../slipway/argocd-secret, key: k}}}}`,
			"is no name of a Secret", all(made("set-pulls-secret"), unrequested("repos/evil/apps"))),
		set("set-plugin", evil, "{plugin: {configMapRef: {name: argocd-cm}}}", "no ConfigMap argocd-cm with the keys", made("set-plugin")),
		set("set-project", bank, list, "project bank does not allow Applications in namespace evil", made("set-project")),
		set("set-default", "default", list, "project default does not allow Applications in namespace evil", made("set-default")),
		set("set-parameter", `"{{.p}}"`, list, "names its project without parameters", made("set-parameter")),
		set("set-two-projects", evil, "{list: {elements: [{p: bank}], template: {metadata: {name: x}, spec: {project: bank, source: {repoURL: x, path: x}, destination: {namespace: evil}}}}}", "has one project", made("set-two-projects")),
		elsewhere,
	}
}
