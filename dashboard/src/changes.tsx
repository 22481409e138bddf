// The changes between two configurations.
import type { JSX } from "preact";
import { withParts } from "./deactivated";
import type { Change } from "./yang";

const SIGNS = { create: ["+", "added"], delete: ["−", "removed"], replace: ["~", "changed"], deactivate: ["!", "deactivated"], activate: ["!", "activated"] } as const;
/** Maximum number of rows. */
const MOST = 500;

export const Changes = ({ list }: { list: Change[] }): JSX.Element => {
  const rows = withParts(list);
  return (
    <>
      <ul class="changes">
        {rows.slice(0, MOST).map((change) => {
          const [sign, words] = SIGNS[change.operation];
          const isWhole = change.operation === "deactivate" || change.operation === "activate";
          return (
            <li class={change.operation}>
              <span class="sign" title={words}>
                {sign}
                <span class="unseen"> {words}</span>
              </span>
              <span>
                <code>{change.path}</code>
                {isWhole && ` ${words}`}
                {(change.old !== undefined || change.new !== undefined) && (
                  <span class="values">
                    {change.old !== undefined && <del>{change.old}</del>}
                    {change.new !== undefined && <ins>{change.new}</ins>}
                  </span>
                )}
              </span>
            </li>
          );
        })}
      </ul>
      {rows.length > MOST && <p class="none">and {rows.length - MOST} more</p>}
    </>
  );
};
