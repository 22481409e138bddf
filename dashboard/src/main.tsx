// The frame of all pages: login, navigation and banners.
import { type JSX, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Banners } from "./banners";
import { useCell } from "./cell";
import { listen, notice, datastoreStatus } from "./events";
import { Notice } from "./parts";
import { Capture } from "./pages/capture";
import { Configuration } from "./pages/configuration";
import { Drops } from "./pages/drops";
import { Flows } from "./pages/flows";
import { Graph } from "./pages/graph";
import { Hosts } from "./pages/hosts";
import { History } from "./pages/history";
import { Interface } from "./pages/interface";
import { Interfaces } from "./pages/interfaces";
import { LogIn } from "./pages/login";
import { Translation } from "./pages/nat";
import { Neighbors } from "./pages/neighbors";
import { Overview } from "./pages/overview";
import { Routes } from "./pages/routes";
import { Rules } from "./pages/rules";
import { Daemons } from "./pages/daemons";
import { Log } from "./pages/log";
import { Policy } from "./pages/policy";
import { Sessions } from "./pages/sessions";
import { Vrrp } from "./pages/vrrp";
import { Workers } from "./pages/workers";
import { link, place } from "./route";
import { greet, logOut, routerName, user } from "./server";
import { type Theme, begin, choose, theme } from "./theme";
import "./style.css";
import "./parts.css";

const PAGES: [string, string][] = [
  ["", "Overview"],
  ["interfaces", "Interfaces"],
  ["graph", "Packet graph"],
  ["routes", "Routes"],
  ["neighbors", "Neighbours"],
  ["daemons", "Routing daemons"],
  ["sessions", "BGP and BFD"],
  ["vrrp", "VRRP"],
  ["rules", "Rules"],
  ["flows", "Flows"],
  ["nat", "NAT"],
  ["hosts", "Logins"],
  ["policy", "Policy rules"],
  ["drops", "Drops"],
  ["workers", "Workers"],
  ["capture", "Capture"],
  ["configuration", "Configuration"],
  ["history", "History"],
  ["log", "Events and log"],
];

function Page(): JSX.Element {
  const { page, rest } = useCell(place);
  switch (page) {
    case "":
      return <Overview />;
    case "interfaces":
      return rest[0] ? <Interface key={rest[0]} name={rest[0]} /> : <Interfaces />;
    case "graph":
      return <Graph />;
    case "routes":
      return <Routes />;
    case "neighbors":
      return <Neighbors />;
    case "daemons":
      return <Daemons />;
    case "sessions":
      return <Sessions />;
    case "vrrp":
      return <Vrrp />;
    case "rules":
      return <Rules />;
    case "flows":
      return <Flows />;
    case "nat":
      return <Translation />;
    case "hosts":
      return <Hosts />;
    case "policy":
      return <Policy />;
    case "log":
      return <Log />;
    case "drops":
      return <Drops />;
    case "workers":
      return <Workers />;
    case "capture":
      return <Capture />;
    case "configuration":
      return <Configuration />;
    case "history":
      return <History />;
    default:
      return (
        <Notice mood="warn">
          Page not found. <a href={link("")}>Go to the overview.</a>
        </Notice>
      );
  }
}

const ThemeChoice = (): JSX.Element => (
  <label class="theme">
    <span>Colours</span>
    <select value={useCell(theme)} onChange={(event) => choose(event.currentTarget.value as Theme)}>
      <option value="auto">as the system</option>
      <option value="light">light</option>
      <option value="dark">dark</option>
    </select>
  </label>
);

function Frame(): JSX.Element {
  const here = useCell(place);
  const known = useCell(user);
  const router = routerName(known);
  const edited = useCell(datastoreStatus).edited;
  const [isOpen, setOpen] = useState(false);
  const leave = (): void => void logOut().catch((error: Error) => notice.set(`Logout failed. ${error.message}`));
  const title = PAGES.find(([page]) => page === here.page)?.[1] ?? "Stoa";
  useEffect(() => {
    setOpen(false);
    window.scrollTo(0, 0);
  }, [here.page, here.rest[0]]);
  // The name comes first: a tab shows little more.
  useEffect(() => void (document.title = `${router} · ${here.rest[0] ?? title} · Stoa`), [router, here.page, here.rest[0]]);
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the content
      </a>
      <nav class={isOpen ? "side open" : "side"} aria-label="Pages">
        <div class="brand">
          <a href={link("")} aria-label={`${router}: overview`}>
            <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
              <rect width="32" height="32" rx="7" fill="var(--accent)" />
              <path d="M6 11 16 5l10 6v2H6zM8 15h3v9H8zm6.5 0h3v9h-3zm6.5 0h3v9h-3zM6 25h20v2.5H6z" fill="var(--surface)" />
            </svg>
            <span class="router">
              {router}
              <small>Stoa</small>
            </span>
          </a>
          <button class="menu" aria-expanded={isOpen} aria-controls="pages" onClick={() => setOpen(!isOpen)}>
            {isOpen ? "Close" : "Menu"}
          </button>
        </div>
        <div id="pages" class="pages">
          <ul>
            {PAGES.map(([page, name]) => (
              <li>
                <a href={link(page)} aria-current={page === here.page ? "page" : undefined}>
                  {name}
                  {page === "configuration" && edited && <span class="dot" title="Uncommitted changes"> ✎</span>}
                </a>
              </li>
            ))}
          </ul>
          <div class="foot">
            <ThemeChoice />
            <div class="who">
              <span title={known?.admin ? "administrator" : undefined}>{known?.user}</span>
              <button class="quiet" onClick={leave}>
                Log out
              </button>
            </div>
          </div>
        </div>
      </nav>
      <main id="main" tabIndex={-1}>
        <Banners />
        <div class="title">
          <h1>{here.page === "interfaces" && here.rest[0] ? here.rest[0] : title}</h1>
          <span class="host">{router}</span>
        </div>
        <Page />
      </main>
    </div>
  );
}

function App(): JSX.Element {
  const known = useCell(user);
  const [why, setWhy] = useState("");
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const first = (): void => {
      greet().then(
        () => setWhy(""),
        (error: Error) => {
          setWhy(error.message);
          timer = setTimeout(first, 2_000);
        },
      );
    };
    first();
    const forget = listen();
    return () => {
      clearTimeout(timer);
      forget();
    };
  }, []);
  if (known === undefined) {
    return <main class="alone">{why ? <Notice mood="warn">{why}</Notice> : <p role="status">Loading …</p>}</main>;
  }
  return known === null ? <LogIn /> : <Frame />;
}

begin();
const root = document.getElementById("app");
if (root) render(<App />, root);
