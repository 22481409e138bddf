// The configuration editor: forms for frequent changes, the whole candidate as JSON, and the commit.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { candidate, load } from "../candidate";
import { useCell } from "../cell";
import { editions, datastoreStatus } from "../events";
import { Waiting } from "../parts";
import { usePoll } from "../poll";
import { link, place } from "../route";
import { CommitForm } from "./commit";
import { BfdForms } from "./edit_bfd";
import { InterfaceForm } from "./edit_interfaces";
import { JsonEditor } from "./edit_json";
import { PolicyForms } from "./edit_policy";
import { RouteForm } from "./edit_routes";
import { VrrpForms } from "./edit_vrrp";
import { NewInterface } from "./new_interface";

const TABS: [string, string][] = [
  ["interfaces", "Interfaces"],
  ["new", "New interface"],
  ["routes", "Static routes"],
  ["policy", "Policy rules"],
  ["bfd", "BFD sessions"],
  ["vrrp", "Virtual routers"],
  ["json", "All as JSON"],
  ["commit", "Changes and commit"],
];

export function Configuration(): JSX.Element {
  const { rest } = useCell(place);
  const turn = useCell(editions);
  const edited = useCell(datastoreStatus).edited;
  const held = useCell(candidate);
  const { data, failure, again } = usePoll(load, 0, []);
  useEffect(() => {
    if (turn > 0) again();
  }, [turn]);
  const tab = TABS.some(([name]) => name === rest[0]) ? (rest[0] ?? "interfaces") : "interfaces";
  const whole = held ?? data;
  const tabs = useRef<HTMLElement>(null);
  // On a phone, the current tab may be outside of what is seen.
  useEffect(() => tabs.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [tab]);
  return (
    <>
      <p class="note">Changes go into the candidate. A commit applies all of them, or none.</p>
      <nav class="tabs" ref={tabs} aria-label="Parts of the editor">
        {TABS.map(([name, words]) => (
          <a href={link("configuration", [name])} aria-current={name === tab ? "page" : undefined}>
            {words}
            {name === "commit" && edited ? " ✎" : ""}
          </a>
        ))}
      </nav>
      <Waiting failure={failure} data={whole} />
      {whole && tab === "interfaces" && <InterfaceForm whole={whole} chosen={rest[1] ?? ""} />}
      {whole && tab === "new" && <NewInterface whole={whole} />}
      {whole && tab === "routes" && <RouteForm whole={whole} />}
      {whole && tab === "policy" && <PolicyForms whole={whole} segments={rest.slice(1)} />}
      {whole && tab === "bfd" && <BfdForms whole={whole} segments={rest.slice(1)} />}
      {whole && tab === "vrrp" && <VrrpForms whole={whole} segments={rest.slice(1)} />}
      {whole && tab === "json" && <JsonEditor whole={whole} />}
      {tab === "commit" && <CommitForm turn={turn} />}
    </>
  );
}
