// What an account without runtimes shows: what Slipway is about to do.

import { Link } from "@tanstack/react-router";
import { useSession } from "../../app/session";
import { buttonClass } from "../../ui/button";
import { Empty } from "../../ui/page";
import "./settings.css";

const steps = [
  {
    title: "Say where Git is",
    text: "Your Git provider, and a repository for the configuration that all runtimes share. Tokens never leave your cluster.",
  },
  {
    title: "Install a runtime",
    text: "One command for Helm or Terraform. The runtime connects to the platform from inside; no port must be opened.",
  },
  {
    title: "Deliver",
    text: "Add a Git Source. The runtime deploys from Git, and you see each commit, its application and its traffic here.",
  },
];

/** FirstRun welcomes an account that has no runtime yet. */
export function FirstRun() {
  const session = useSession();
  if (!session.isAdmin) {
    return (
      <Empty title="No runtimes yet">
        An admin of {session.accountName} installs the first one. Then its applications are shown here.
      </Empty>
    );
  }
  return (
    <section className="stack" aria-labelledby="first-run">
      <div>
        <h2 id="first-run">Welcome to Slipway</h2>
        <p className="sentence muted">
          {session.accountName} has no runtime yet. A runtime runs in a cluster and deploys from Git to it. Next steps:
        </p>
      </div>
      <ol className="steps">
        {steps.map((step, at) => (
          <li key={step.title}>
            <span className="step-number" aria-hidden="true">
              {at + 1}
            </span>
            <h3>{step.title}</h3>
            <p className="muted">{step.text}</p>
          </li>
        ))}
      </ol>
      <div>
        <Link className={buttonClass("primary")} to="/install">
          Install the first runtime
        </Link>
      </div>
    </section>
  );
}
